"""Numbers, days and states as people are shown them."""

from __future__ import annotations

import math


def percent(part: float) -> str:
    r"""Return a probability in percent, with as many digits as tell something; no line is broken before the sign.

    Examples
    --------
    >>> [percent(part).replace("\N{NO-BREAK SPACE}", " ") for part in (0.1234, 0.00056, 0.0, 1.0)]
    ['12.3 %', '0.056 %', '0 %', '100 %']
    >>> [percent(part).replace("\N{NO-BREAK SPACE}", " ") for part in (1e-9, 0.99999)]
    ['less than 0.001 %', 'more than 99.9 %']
    """
    if part in (0.0, 1.0):
        text = f"{100 * part:.0f}"
    elif part < 1e-5:
        text = "less than 0.001"
    elif part > 0.999:
        text = "more than 99.9"
    else:
        text = f"{100 * part:.1f}" if part >= 0.01 else f"{100 * part:.2g}"
    return text + "\N{NO-BREAK SPACE}%"


def points(difference: float) -> str:
    """Return a difference of probabilities in whole percentage points, with its sign.

    Examples
    --------
    >>> points(0.123), points(-0.05), points(0.001), points(math.nan)
    ('+12', '−5', '0', '–')
    """
    if not math.isfinite(difference):
        return "–"
    whole = round(100 * difference)
    return "0" if whole == 0 else f"{whole:+d}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign.

    Examples
    --------
    >>> signed(1.234), signed(-0.5), signed(0.001)
    ('+1.23', '−0.50', '0.00')
    """
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def times(number: float) -> str:
    """Return how often something happened.

    Examples
    --------
    >>> times(0), times(1), times(2), times(2.5)
    ('never', 'once', '2 times', '2.5 times')
    """
    if number == 0:
        return "never"
    return "once" if number == 1 else f"{number:,.10g} times"


def draws(number: float) -> str:
    """Return a number of draws.

    Examples
    --------
    >>> draws(0.999), draws(2.0), draws(0.071)
    ('1 draw', '2 draws', '0.07 draws')
    """
    text = f"{number:,.2f}".rstrip("0").rstrip(".")
    return f"{text} draw" if text == "1" else f"{text} draws"


def day(time: str) -> str:
    """Return the day of the time of an entry.

    Examples
    --------
    >>> day("2026-11-17T09:00:00Z")
    '2026-11-17'
    """
    return time[:10]


def state_word(state: int) -> str:
    """Return a state in words.

    Examples
    --------
    >>> state_word(1), state_word(0), state_word(-1)
    ('good', 'bad', 'not known')
    """
    return {0: "bad", 1: "good"}.get(state, "not known")
