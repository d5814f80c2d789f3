r"""Adherence to CPAP, a treatment for sleep apnoea: the paper's third data set (Section 6.1).

A patient is good while they use the device. The model of Kang et al. (2016), brought to two states,
has two kinds of patient; a pull (a call, say) multiplies the probability of a good next state by 1.1, up to
1. Every probability gets normal noise of its own, so that no two patients are alike.

================  ===========  ===========  ===========  =======================
variant           kind         passive 0→1  passive 1→1  from
================  ===========  ===========  ===========  =======================
``kang``          adherer      0.9615       0.9743       the MF-RMAB paper
``kang``          non-adherer  0.2576       0.4278
``probfair``      general      0.269        0.828        Herlihy et al. (2023)
``probfair``      non-adherer  0.234        0.666
``probfair-sex``  male         0.351        0.853
``probfair-sex``  female       0.214        0.791
================  ===========  ===========  ===========  =======================

The paper's text gives the noise a *variance* of 0.1; the authors' code and numbers have a *standard deviation* of
0.1, as here. With it, a pull harms some patients of ``kang``.

The ProbFair variants are drawn as by Herlihy et al. (their repository, crherlihy/prob_fair_rmab). Noise is added on the
logit scale, where it cannot leave (0, 1), with a standard deviation of 1; that of non-adherers is one-sided, downwards
only, as they are to adhere less than others. A patient whom a pull or a good state would harm is drawn again. So
:math:`p_{s0} \le p_{s1}` and :math:`p_{0a} \le p_{1a}` for everyone, and no benefit is negative. *Departures:* kinds of
patients are not shuffled, and probabilities are clipped at the end; with ``epsilon=0`` they are not.

References
----------
Y. Kang, A. M. Sawyer, P. M. Griffin and V. V. Prabhu, "Modelling Adherence Behaviour for the Treatment of Obstructive
Sleep Apnoea", European Journal of Operational Research 249 (2016). C. Herlihy, A. Prins, A. Srinivasan and J. P.
Dickerson, "Planning to Fairly Allocate: Probabilistic Fairness in the Restless Bandit Setting", KDD 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_choice, check_flag, check_number
from meritfair.core.errors import InputError
from meritfair.core.machine import check_arms
from meritfair.core.seeding import fresh_seed, stream
from meritfair.datasets.synthetic import legacy_seed
from meritfair.model.arms import Arms

# kind of patient -> passive probability of a good next state from bad and from good; the first kind is the share
_PASSIVE: dict[str, dict[str, tuple[float, float]]] = {
    "kang": {"non-adherer": (0.2576, 0.4278), "adherer": (0.9615, 0.9743)},
    "probfair": {"non-adherer": (0.234, 0.666), "general": (0.269, 0.828)},
    "probfair-sex": {"male": (0.351, 0.853), "female": (0.214, 0.791)},
}
_DEFAULT_SHARE = {"kang": 0.3, "probfair": 0.3, "probfair-sex": 0.5}
_DEFAULT_NOISE = {"kang": 0.1, "probfair": 1.0, "probfair-sex": 1.0}
VARIANTS = tuple(_PASSIVE)
_TRIES = 1000  # of an arm, before it is given up; at the defaults more than one in three is taken


def cpap(
    n_arms: int,
    seed: int | None = None,
    *,
    non_adherers: float | None = None,
    improvement: float = 1.1,
    noise: float | None = None,
    epsilon: float = 0.01,
    variant: str = "kang",
    reseed: bool = True,
    authors: bool = False,
    budget: int | None = None,
    run: int = 0,
) -> Arms:
    """Return patients who differ in how well they keep to their CPAP therapy.

    Parameters
    ----------
    n_arms : int
    seed : int, optional
        Fixes the arms; with `authors`, their seed number, 1 to 30 in the paper. None: new ones each time.
    non_adherers : float, optional
        Share of the first kind of patient, who come first; 0.3 by default, rounded down to whole arms.
        For ``probfair-sex`` it is the share of men, 0.5 by default.
    improvement : float
        A pull multiplies the probability of a good next state by this, up to 1.
    noise : float, optional
        Standard deviation of the noise on each probability, 0.1 by default; in the ProbFair variants on each logit, 1
        by default.
    epsilon : float
        Probabilities are clipped to [epsilon, 1 - epsilon].
    variant : {"kang", "probfair", "probfair-sex"}
        Which model of CPAP.
    reseed : bool
        With `authors` only: whether each arm has a generator of its own, as in their released code, or all arms of an
        instance share one, which is what their Table 1 fits.
    authors : bool
        Make the authors' own instance, which depends on the budget too.
    budget : int, optional
        Needed with `authors` only.
    run : int
        Which of the many instances of one seed.

    Examples
    --------
    >>> arms = cpap(n_arms=5, seed=1, budget=1, authors=True)
    >>> arms.names[:2], float(arms.benefit[1].round(4))
    (('non-adherer-1', 'adherer-1'), 0.144)
    """
    N = check_arms(n_arms)
    check_choice("variant", variant, VARIANTS)
    share = check_number("non_adherers", _DEFAULT_SHARE[variant] if non_adherers is None else non_adherers, 0.0, 1.0)
    gain = check_number("improvement", improvement, 0.0)
    sd = check_number("noise", _DEFAULT_NOISE[variant] if noise is None else noise, 0.0)
    away = check_number("epsilon", epsilon, 0.0, 0.5)
    if check_flag("authors", authors) and variant != "kang":
        raise InputError(f"authors=True needs the variant 'kang', got {variant!r}")
    base, names = _patients(variant, N, int(share * N + 1e-9), gain)
    if authors:
        first = legacy_seed(N, budget, seed)
        if check_flag("reseed", reseed):
            normal = np.stack([np.random.RandomState((i + 1) * first).normal(0.0, 1.0, (2, 2)) for i in range(N)])
        else:
            normal = np.random.RandomState(first).normal(0.0, 1.0, (N, 2, 2))
    else:
        rng = stream(fresh_seed(seed), "instance", run)
        if variant != "kang":
            return Arms(_whom_all_helps(base, names, sd, gain, away, rng), names)
        normal = rng.standard_normal((N, 2, 2))
    return Arms(np.clip(base + sd * normal, away, 1 - away), names)


def _patients(variant: str, n_arms: int, first: int, improvement: float) -> tuple[FloatArray, list[str]]:
    """Return each patient's probabilities before noise, shape (N, 2, 2), and name."""
    kinds: Any = list(_PASSIVE[variant].items())
    numbered = [(*kinds[0], i + 1) if i < first else (*kinds[1], i + 1 - first) for i in range(n_arms)]
    passive = np.array([values for _, values, _ in numbered])
    pulled = np.minimum(1.0, improvement * passive)
    return np.stack([passive, pulled], axis=-1), [f"{kind}-{number}" for kind, _, number in numbered]


def _whom_all_helps(
    base: FloatArray, names: Sequence[str], sd: float, improvement: float, epsilon: float, rng: np.random.Generator
) -> FloatArray:
    """Return patients with noise on the logit, drawn again for those whom a pull or a good state would harm."""
    down = np.array([name.startswith("non-adherer") for name in names])[:, None, None]
    P, left = base.copy(), np.arange(len(base))
    for _ in range(_TRIES):
        normal = sd * rng.standard_normal((len(left), 2, 2))
        here = _on_logit(base[left], np.where(down[left], -np.abs(normal), normal), epsilon)
        P[left] = here
        left = left[np.any(here[:, :, 1] < here[:, :, 0], axis=1) | np.any(here[:, 1] < here[:, 0], axis=1)]
        if not len(left):
            return np.clip(P, epsilon, 1 - epsilon)
    harmed = f"in {_TRIES:,} draws of {names[left[0]]} a pull or a good state always harmed"
    raise InputError(f"improvement and noise must be such that a pull helps, got {improvement:g} and {sd:g}: {harmed}")


def _on_logit(P: FloatArray, noise: FloatArray, epsilon: float) -> FloatArray:
    """Add noise to the logit; a certain outcome, which has none, is first moved off the edge."""
    inside = np.clip(P, max(epsilon, 1e-12), 1 - max(epsilon, 1e-12))
    return np.asarray(1 / (1 + (1 - inside) / inside * np.exp(-noise)))
