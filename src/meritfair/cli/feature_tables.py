"""What `meritfair fit` shows of features: what is due by their values, which of them help, what goes with a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meritfair.cli.show import print_note, print_table, say
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from meritfair.fitting import Fit

_MOST_ROWS = 60
_PROXY = (
    "Mean due exposure and benefit of those with each value. A feature that may not predict can still differ here: "
    "because those who have its values benefit differently, or because one that predicts stands in for it."
)


def show_features(found: Fit, digits: int) -> None:
    """Show what is due by the values of each feature, which features helped, and what goes with each class."""
    if found.features is None:
        return
    rows = [
        [
            printable(row["feature"]),
            printable(row["value"]),
            f"{row['arms']:,}",
            f"{row['exposure']:.{digits}f}",
            f"{row['benefit']:z.2f}",
        ]
        for row in found.due_by_feature
    ]
    say("")
    columns = ["feature", "value", "arms", "mean due\nexposure", "mean\nbenefit"]
    print_table(columns, rows[:_MOST_ROWS], "Due exposure by feature")
    if len(rows) > _MOST_ROWS:
        say(f"… and {len(rows) - _MOST_ROWS:,} more; --json prints all.\n")
    print_note(_PROXY)
    for line in _feature_lines(found):
        print_note(printable(line))


def _feature_lines(found: Fit) -> list[str]:
    """Return in words which features helped, what goes with each class, and what was not known."""
    lines = [f"{name}: never used to predict." for name in found.settings["never"]]
    for name, gain in found.feature_gains.items():
        verdict = "predicts" if name in found.used_features else "does not help, and is not used"
        lines.append(f"{name}: {verdict} (held-out log-likelihood {gain:+.1f}).")
    shares = [] if found.classes is None else found.classes.mean(axis=0).tolist()
    of_classes = zip(shares, found.class_benefits, found.class_features, strict=False)  # empty if none predicts
    for c, (share, benefit, words) in enumerate(of_classes):
        what = words or "features as of all"
        lines.append(f"class {c + 1}, {100 * share:.0f} % of arms, benefit {benefit:z.2f}: {what}.")
    for name, number in found.unknown_values.items():
        lines.append(f"{name}: {several(number, 'arm')} with a value that fewer than three have, taken as not known.")
    return lines


def feature_numbers(found: Fit) -> dict[str, Any]:
    """Return what there is to say of features, nothing if there are none."""
    if found.features is None:
        return {}
    return {
        "features": {
            "gains": found.feature_gains,
            "used": list(found.used_features),
            "classes": found.class_features,
            "class_benefits": found.class_benefits,
            "unknown_values": found.unknown_values,
        },
        "due_by_feature": found.due_by_feature,
    }
