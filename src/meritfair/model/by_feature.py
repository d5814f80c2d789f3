"""What people with each value of a feature are due, and which features go with each class: so that a proxy shows.

A feature need not be used to matter: if it is forbidden, but those who have one of its values are due less, something
that is used stands in for it. So due exposure and benefit are shown by the values of every feature. Numeric features
are shown by quarters of the arms.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.model.features import MISSING, Features

NOT_KNOWN = "not known"
_QUARTERS = (0.25, 0.5, 0.75)
_FEW = 4  # different numbers that are shown one by one
_MOST_WORDS = 2  # levels of a feature that describe a class
_TELLING = 0.05  # by how much the share of a level in a class must be above that of all


def by_feature(features: Features, exposure: FloatArray, benefit: FloatArray) -> list[dict[str, Any]]:
    """Return a row for each value of each feature: how many arms have it, and their mean due exposure and benefit.

    Examples
    --------
    >>> known = Features({"area": ["north", "south", "north"], "age": [20, 30, None]})
    >>> for row in by_feature(known, np.array([0.2, 0.6, 0.2]), np.array([0.1, 0.3, 0.1])):
    ...     print(*row.values())
    area north 2 0.2 0.1
    area south 1 0.6 0.3
    age 20 1 0.2 0.1
    age 30 1 0.6 0.3
    age not known 1 0.2 0.1
    """
    rows = []
    for name in features:
        for label, arms in groups(features, name):
            means = {"exposure": float(exposure[arms].mean()), "benefit": float(benefit[arms].mean())}
            rows.append({"feature": name, "value": label, "arms": len(arms), **means})
    return rows


def groups(features: Features, name: str) -> list[tuple[str, IntArray]]:
    """Return the values of a feature with the places of those who have each: in order, what is not known last."""
    texts = np.array(features[name], dtype=object)
    if name in features.numeric:
        found = _quarters(features.numbers(name))
    else:
        found = [(level, np.flatnonzero(texts == level)) for level in sorted(set(texts.tolist()) - {MISSING})]
    missing = np.flatnonzero(texts == MISSING)
    return [*found, (NOT_KNOWN, missing)] if len(missing) else found


def _quarters(values: FloatArray) -> list[tuple[str, IntArray]]:
    """Return numbers by quarters of the arms, or one by one if they are few."""
    there = values[~np.isnan(values)]
    ends = np.unique(there)
    if len(ends) > _FEW:
        ends = np.unique([*np.quantile(there, _QUARTERS, method="inverted_cdf"), there.max()])
    place = np.where(np.isnan(values), -1, np.searchsorted(ends, values))
    return [(_span(values[place == i]), np.flatnonzero(place == i)) for i in range(len(ends))]


def _span(values: FloatArray) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def class_words(features: Features, weights: FloatArray) -> list[str]:
    """Return for each class which features its arms have, in words; weights (N, C) say who belongs to it.

    Examples
    --------
    >>> known = Features({"area": ["north", "north", "south"], "age": [20, 30, 70]})
    >>> class_words(known, np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))[0]
    'area north 100 % (all 67 %); age 25 on average (all 40)'
    """
    share = weights / np.maximum(weights.sum(axis=0), 1e-300)
    return ["; ".join(filter(None, (_words(features, name, own) for name in features))) for own in share.T]


def _words(features: Features, name: str, share: FloatArray) -> str:
    if name in features.numeric:
        values = features.numbers(name)
        there = ~np.isnan(values)
        own = (share[there] * values[there]).sum() / max(share[there].sum(), 1e-300)
        return f"{name} {own:.3g} on average (all {values[there].mean():.3g})"
    often, within = Counter(features[name]), dict[str, float]()
    for text, part in zip(features[name], share.tolist(), strict=True):
        within[text] = within.get(text, 0.0) + part
    lift = {text: within[text] - often[text] / len(share) for text in often}
    telling = sorted((text for text in lift if lift[text] > _TELLING), key=lambda text: (-lift[text], text))
    told = [
        f"{text or NOT_KNOWN} {100 * within[text]:.0f} % (all {100 * often[text] / len(share):.0f} %)"
        for text in telling[:_MOST_WORDS]
    ]
    return f"{name} {', '.join(told)}" if told else ""
