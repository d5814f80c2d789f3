"""One policy with several slacks: which variants are played, and the panel of reward against slack."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from matplotlib.figure import Figure

import meritfair as mf
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery
from meritfair.policies.view import View
from meritfair.simulation.comparison import Comparison, compare
from meritfair.simulation.slack import SlackCurve, slack_curves, slack_lines, with_slacks

QUICK: dict[str, Any] = {"budget": 2, "episodes": 4, "horizon": 30, "seed": 3}
SETS = mf.datasets.instances("synthetic", 6, 4, seed=2)


@dataclass(frozen=True)
class Patient(Policy):
    """Draws the more by merit the more slack it has."""

    name: ClassVar[str] = "patient"
    plans_once = True
    oracle = True
    merit: mf.Merit = field(default_factory=mf.Exponential)
    design: str = "exact"
    slack: float = 0.0

    @property
    def criterion(self) -> mf.Criterion:
        return mf.Criterion(self.merit, self.design)

    def plan(self, view: View) -> Lottery:
        return Lottery(self.merit(min(self.slack, 9.0) * mf.benefit(view.true_transitions)), self.design)


@pytest.fixture(scope="module")
def found() -> Comparison:
    policies = {"random": mf.Random(), "patient": Patient(), "mild": Patient(mf.Exponential(1.0))}
    return compare(SETS, policies, slack=[2, 0, float("inf")], **QUICK)


# --- variants ---


def test_a_variant_for_each_slack_in_place_of_the_policy() -> None:
    made = with_slacks({"a": mf.Random(), "patient": Patient(), "x:y=1": Patient(slack=3.0)}, [0, 0.5, np.inf])
    assert made == {
        "a": mf.Random(),
        "patient:slack=0": Patient(slack=0.0),
        "patient:slack=0.5": Patient(slack=0.5),
        "patient:slack=inf": Patient(slack=np.inf),
        "x:y=1": Patient(slack=3.0),  # has its own
    }


def test_labels_can_be_typed_if_those_of_the_policies_can() -> None:
    made = with_slacks({"patient:design=exact": Patient()}, [1, 10])
    assert list(made) == ["patient:design=exact,slack=1", "patient:design=exact,slack=10"]


@pytest.mark.parametrize(
    ("policies", "slacks", "message"),
    [
        ({"a": mf.Random()}, [1], "none of these policies has a setting 'slack' that is not set yet: a"),
        ({"a": Patient(slack=2.0)}, [1], "none of these policies has a setting 'slack'"),
        ({"a": Patient()}, [], r"slack must be one or more numbers of at least 0, got \[\]"),
        ({"a": Patient()}, [1, -2], r"slack must be one or more numbers of at least 0, got \[1, -2\]"),
        ({"a": Patient()}, [float("nan")], "slack must be one or more numbers of at least 0"),
        ({"a": Patient()}, [[1.0]], "slack must be one or more numbers of at least 0"),
        ({"a": Patient()}, "ab", "slack"),
        ({"a": Patient()}, [1, 0, 1.0], "duplicate slack: 1, 0, 1"),
        ({"a": Patient(), "a:slack=1": mf.Random()}, [1], "duplicate policy: a:slack=1"),
        (
            {"a": Patient(design="sequential")},
            [0, 1],
            r"slack needs the design 'exact' or .*, got 'sequential' for a",
        ),
    ],
)
def test_slacks_that_cannot_be(policies: Any, slacks: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        compare(SETS, policies, slack=slacks, **QUICK)


def test_no_slack_needs_no_design() -> None:
    assert list(with_slacks({"a": Patient(design="sequential")}, [0])) == ["a:slack=0"]


# --- the curve ---


def test_variants_are_one_curve_from_the_smallest_slack(found: Comparison) -> None:
    assert slack_curves(found.runs) == (
        SlackCurve("patient", (0.0, 2.0, np.inf), ("patient:slack=0", "patient:slack=2", "patient:slack=inf")),
        SlackCurve("mild", (0.0, 2.0, np.inf), ("mild:slack=0", "mild:slack=2", "mild:slack=inf")),
    )


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("p:slack=0,a=1", "p:slack=2,a=1"), "p:a=1"),
        (("p:a=1,slack=0,b=2", "p:a=1,slack=2,b=2"), "p:a=1,b=2"),
        (("p", "p:slack=2"), "p"),
        (("blind", "timed"), "blind"),
    ],
)
def test_what_a_curve_is_called(labels: tuple[str, str], expected: str) -> None:
    both = compare(SETS, {labels[0]: Patient(), labels[1]: Patient(slack=2.0)}, **QUICK)
    (curve,) = slack_curves(both.runs)
    assert curve.label == expected
    assert curve.members == labels


def test_other_settings_are_other_curves_and_one_slack_is_none() -> None:
    other = compare(SETS, {"a": Patient(slack=1.0), "b": Patient(mf.Power(), slack=2.0), "c": mf.Random()}, **QUICK)
    assert slack_curves(other.runs) == ()
    twice = compare(SETS, {"a": Patient(slack=1.0), "b": Patient(slack=1.0)}, **QUICK)
    assert slack_curves(twice.runs) == ()


def test_lines_have_places_among_all_slacks(found: Comparison) -> None:
    curves = (
        SlackCurve("a", (0.0, np.inf), ("patient:slack=0", "patient:slack=inf")),
        SlackCurve("b", (2.0, np.inf), ("mild:slack=2", "mild:slack=inf")),
    )
    shown = slack_lines(found.measures, curves, "good_state")
    assert shown.slacks == (0.0, 2.0, np.inf)
    assert [place.tolist() for place in shown.places] == [[0, 2], [1, 2]]
    assert tuple(shown.rewards[1][:, 0]) == found.measures["mild:slack=2"]["good_state"]


# --- accounts ---


@pytest.fixture(scope="module")
def timed() -> Comparison:
    fair = mf.Criterion(design="exact")
    return compare(SETS, ["whittle", "merit-fair:estimate=mean"], slack=[0, 0.5, 2], criterion=fair, **QUICK)


def test_accounts_are_within_the_slack(timed: Comparison) -> None:
    for slack in (0.5, 2.0):
        run = timed.runs[f"merit-fair:estimate=mean,slack={slack:g}"]
        measures = run.measures()
        assert (measures["largest_account"] > 0).all()
        assert (measures["largest_account"] <= slack + 1e-9).all()
        assert (measures["worst_window"] <= 2 * slack + 1e-9).all()
        np.testing.assert_array_equal(measures["largest_account"], np.abs(run.account_range).max(axis=(1, 2)))
        np.testing.assert_array_equal(measures["worst_window"], np.ptp(run.account_range, axis=-1).max(axis=1))
    (row,) = (row for row in timed.rows() if row["policy"].endswith("slack=2"))
    assert row["largest_account_low"] <= row["largest_account"] <= row["largest_account_high"]


def test_without_accounts_nothing_is_known_of_them(timed: Comparison) -> None:
    for label in ("whittle", "merit-fair:estimate=mean,slack=0"):
        assert np.isnan(timed.measures[label]["largest_account"]).all()
        assert np.isnan(timed.measures[label]["worst_window"]).all()


def test_people_are_shown_accounts_if_there_are_any(found: Comparison, timed: Comparison, tmp_path: Path) -> None:
    assert timed.has_accounts
    assert not found.has_accounts
    headings = []
    for number, each in enumerate((found, timed)):
        each.save(tmp_path / f"{number}.md")
        lines = (tmp_path / f"{number}.md").read_text().splitlines()
        headings.append(next(line for line in lines if line.startswith("| policy")))
    assert "account" not in headings[0]
    assert headings[1].endswith("| longest wait | largest account | worst window |")
    assert timed.cells()[0][-2:] == ["–", "–"]
    assert 0 < float(timed.cells()[2][-2].split()[0]) <= 0.5


# --- the figure ---


def test_the_third_panel_has_benefit_against_slack(found: Comparison, tmp_path: Path) -> None:
    figure = found.plot()
    panel = figure.axes[2]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["0", "2", "∞"]
    legend: Any = panel.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["patient", "mild"]
    lines = [line for line in panel.lines if line.get_marker() == "o"]
    benefit = [found.measures[f"patient:slack={slack}"]["intervention_benefit"].mean for slack in ("0", "2", "inf")]
    np.testing.assert_array_equal(np.asarray(lines[0].get_ydata()), benefit)
    assert lines[0].get_color() != lines[1].get_color()
    figure.savefig(tmp_path / "figure.png")


def test_variants_have_one_color_and_the_first_and_the_last_have_names(found: Comparison) -> None:
    left = found.plot().axes[0]
    assert [text.get_text() for text in left.texts] == [
        "random",
        "patient:slack=0",
        "slack ∞",
        "mild:slack=0",
        "slack ∞",
    ]
    colors = [text.get_color() for text in left.texts]
    assert len(set(colors)) == 3
    assert colors[1] == colors[2] != colors[3] == colors[4]
    points = [line for line in left.lines if line.get_marker() == "o"]
    assert [line.get_color() for line in points].count(colors[1]) == 3


def test_the_panel_of_slacks_has_a_scale_of_its_own(found: Comparison) -> None:
    left, right, slacks = found.plot().axes
    assert left.get_ylim() == right.get_ylim() != slacks.get_ylim()
    assert slacks.get_ylabel() == left.get_ylabel() != right.get_ylabel()


def test_three_axes_of_the_caller(found: Comparison) -> None:
    three = Figure().subplots(1, 3)
    assert found.plot(ax=three) is three[0].figure
    with pytest.raises(mf.InputError, match=r"ax must be three Axes, as of plt.subplots\(1, 3\), got 2 Axes"):
        found.plot(ax=Figure().subplots(1, 2))


def test_without_slacks_there_are_two_panels() -> None:
    assert len(compare(SETS, ["random"], **QUICK).plot().axes) == 2
