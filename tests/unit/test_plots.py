"""What all figures share: axes and sizes of the caller, and images for notebooks."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import meritfair as mf


def run() -> Any:
    return mf.simulate(mf.datasets.synthetic(4, seed=1), "random", budget=1, episodes=3, horizon=5, seed=1)


def comparison() -> Any:
    return mf.compare(mf.datasets.synthetic(4, seed=1), ["random"], budget=1, episodes=3, horizon=5, seed=1)


def fit() -> Any:
    rng = np.random.default_rng(1)
    return mf.fit(mf.Counts(np.full((4, 2, 2), 9), rng.integers(0, 10, (4, 2, 2))))


def audit() -> Any:
    return mf.audit(mf.DrawLog([1, 1, 2, 2], ["a", "b"] * 2, [0.5] * 4, [0, 1, 1, 0]))


@pytest.fixture(scope="module", params=[run, comparison, fit, audit], ids=lambda make: make.__name__)
def found(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.mark.slow
def test_axes_of_the_caller_are_drawn_into(found: Any) -> None:
    figure, alone = Figure(figsize=(7, 5)), found.plot()
    top, below = figure.subplots(2, 2)
    assert found.plot(ax=below) is figure
    for drawn, own in zip(below, alone.axes, strict=True):
        assert drawn.get_xlabel() == own.get_xlabel()
        assert len(drawn.lines) == len(own.lines)
        assert drawn.get_ylim() == own.get_ylim()
    assert not any(axes.has_data() for axes in top)
    assert not figure.legends  # nor a caption: the figure is the caller's
    assert figure.get_supxlabel() == ""
    assert figure.get_size_inches().tolist() == [7, 5]
    assert alone.get_size_inches()[0] == 10
    figure.savefig(io.BytesIO())


def test_axes_may_be_in_parts_of_a_figure() -> None:
    figure = Figure()
    grid = figure.add_gridspec(1, 2)
    parts = [figure.add_subfigure(grid[0, i]).subplots() for i in range(2)]
    assert run().plot(ax=parts) is figure


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ax": Figure().subplots()}, "ax must be two Axes.*, got 1 Axes"),
        ({"ax": Figure().subplots(1, 3)}, "ax must be two Axes.*, got 3 Axes"),
        ({"ax": [1, 2]}, r"ax must be two Axes.*, got \[1, 2\]"),
        ({"ax": Figure().subplots(1, 2), "figsize": (6, 3)}, r"figsize is for a new figure.*, got \(6, 3\)"),
        ({"figsize": 3}, "figsize must be a width and a height above 0.*, got 3"),
        ({"figsize": (0, 3)}, r"figsize must be a width and a height above 0.*, got \(0, 3\)"),
        ({"figsize": (3, np.inf)}, r"figsize must be a width and a height above 0.*, got \(3, inf\)"),
    ],
)
def test_mistakes_are_named(found: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        found.plot(**wrong)


def test_notebooks_show_figures_in_the_size_that_is_asked_for(found: Any) -> None:
    figure = found.plot(figsize=(6, 3))
    assert figure.get_size_inches().tolist() == [6, 3]
    image = figure._repr_png_()
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20], "big") == 600  # as wide as on a screen, not as in a file


def test_a_figure_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(run().plot()))._repr_png_()
