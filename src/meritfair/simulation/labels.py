"""Where the labels of points in a figure go, so that all can be read."""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import FloatArray

_REACH = 5.0 * 1.5 ** np.arange(9)  # how far from its point a label may go
_TURN = np.deg2rad(np.arange(0, 360, 22.5))
_AROUND = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=-1)
_MOST_ROUNDS = 8


def place_labels(points: FloatArray, sizes: FloatArray, frame: FloatArray, avoid: FloatArray) -> FloatArray:
    """Return the centres of labels, each near its point, off other labels, points and lines as far as that goes.

    Each label in turn takes the best of some places around its point, given all others, until none moves.

    Parameters
    ----------
    points, sizes : ndarray, shape (n, 2)
        Where the points are, and how wide and high their labels.
    frame : ndarray, shape (2, 2)
        Lower left and upper right corner of where labels may be.
    avoid : ndarray, shape (m, 2)
        Further places that are better left free.
    """
    centres = np.full(points.shape, np.inf)  # not yet placed
    for _ in range(_MOST_ROUNDS):
        before = centres.copy()
        for i in range(len(points)):
            others = np.arange(len(points)) != i
            tries = (points[i] + _AROUND * (sizes[i] / 2 + _REACH[:, None, None])).reshape(-1, 2)
            costs = _label_costs(tries, sizes[i], points[i], (points, avoid), (centres[others], sizes[others]), frame)
            centres[i] = tries[np.argmin(costs)]
        if np.array_equal(before, centres):
            break
    return centres


def _label_costs(
    tries: FloatArray,
    size: FloatArray,
    point: FloatArray,
    free: tuple[FloatArray, FloatArray],
    others: tuple[FloatArray, FloatArray],
    frame: FloatArray,
) -> FloatArray:
    """Return how bad each place for a label is."""
    half, (centres, sizes) = size / 2 + 1, others

    def within(places: FloatArray, about: FloatArray, halves: FloatArray) -> FloatArray:
        return np.asarray((np.abs(places - about) < halves).all(axis=-1).sum(axis=-1), dtype=np.float64)

    outside = np.maximum(0, np.maximum(frame[0] - (tries - half), tries + half - frame[1])).sum(axis=-1)
    labels = within(tries[:, None], centres, half + sizes / 2)
    dots, lines = (within(places, tries[:, None], half + 2) for places in free)
    edge = np.clip(point, tries - half, tries + half)  # where the line to the point ends
    along = (edge[:, None] + np.linspace(0.0, 0.8, 9)[:, None] * (point - edge)[:, None])[:, :, None]
    foreign = free[0][(free[0] != point).any(axis=-1)]
    crossed = within(along, centres, sizes / 2).sum(axis=-1) + within(along, foreign, np.array(3.0)).sum(axis=-1)
    far = np.hypot(*(edge - point).T)
    return np.asarray(10 * outside + 100 * labels + 30 * dots + 0.5 * lines + 5 * crossed + 0.2 * far)
