"""Numbers, days and states as people are shown them, in the current language."""

from __future__ import annotations

import math
from datetime import datetime

from meritfair.auditing.report import readable
from meritfair.core.language import _, current, ngettext


def percent(part: float) -> str:
    r"""Return a probability in percent, with as many digits as tell something; no line is broken before the sign.

    Examples
    --------
    >>> [percent(part).replace("\N{NO-BREAK SPACE}", " ") for part in (0.1234, 0.00056, 0.0, 1.0)]
    ['12.3 %', '0.056 %', '0 %', '100 %']
    >>> [percent(part).replace("\N{NO-BREAK SPACE}", " ") for part in (1e-9, 0.99999)]
    ['less than 0.001 %', 'more than 99.9 %']
    """
    decimal = current().decimal
    if part in (0.0, 1.0):
        text = decimal(100 * part)
    elif part < 1e-5:
        text = _("less than {number}").format(number=decimal(0.001, 3))
    elif part > 0.999:
        text = _("more than {number}").format(number=decimal(99.9, 1))
    else:
        text = decimal(100 * part, 1) if part >= 0.01 else two_digits(100 * part)
    return text + "\N{NO-BREAK SPACE}%"


def two_digits(value: float) -> str:
    """Return a number below 1 with two digits that tell something."""
    text = f"{value:.2g}"
    return current().decimal(float(text), len(text.partition(".")[2]))


def points(difference: float) -> str:
    """Return a difference of probabilities in whole percentage points, with its sign.

    Examples
    --------
    >>> points(0.123), points(-0.05), points(0.001), points(math.nan)
    ('+12', '−5', '0', '–')
    """
    if not math.isfinite(difference):
        return "–"
    rounded = round(100 * difference)
    return "0" if rounded == 0 else f"{rounded:+d}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign.

    Examples
    --------
    >>> signed(1.234), signed(-0.5), signed(0.001)
    ('+1.23', '−0.50', '0.00')
    """
    text = current().decimal(abs(value), digits)
    if not text.strip("0.,"):
        return text
    return f"+{text}" if value > 0 else f"−{text}"


def whole(number: float) -> str:
    """Return a whole number."""
    return current().decimal(number)


def times(number: float) -> str:
    """Return how often something happened.

    Examples
    --------
    >>> times(0), times(1), times(2), times(2.5)
    ('never', 'once', '2 times', '2.5 times')
    """
    if number == 0:
        return _("never")
    return _("once") if number == 1 else _("{n} times").format(n=_shortest(number))


def draws(number: float) -> str:
    """Return a number of draws.

    Examples
    --------
    >>> draws(0.999), draws(2.0), draws(0.071)
    ('1 draw', '2 draws', '0.07 draws')
    """
    rounded = round(number, 2)
    return ngettext("{n} draw", "{n} draws", rounded).format(n=_shortest(rounded))


def _shortest(number: float) -> str:
    """Return a number with as many digits as it has, at most two."""
    digits = next(digits for digits in (0, 1, 2) if digits == 2 or round(number, digits) == number)
    return current().decimal(number, digits)


def rounds(number: int) -> str:
    """Return a number of rounds."""
    return ngettext("{n} round", "{n} rounds", number).format(n=whole(number))


def shortest(value: float) -> str:
    """Return a setting with as many digits as it has.

    Examples
    --------
    >>> shortest(0.25), shortest(3.0), shortest(math.inf)
    ('0.25', '3', 'inf')
    """
    text = f"{value:g}"
    return current().decimal(value, len(text.partition(".")[2])) if "." in text and "e" not in text else text


def evidence(log_e: float) -> str:
    """Return an e-value in few digits, from its logarithm.

    Examples
    --------
    >>> evidence(math.log(0.412)), evidence(math.log(2000)), evidence(math.inf)
    ('0.41', '2,000', 'infinite')
    """
    if log_e == math.inf:
        return _("infinite")
    if math.log(99) <= log_e < math.log(1e5):
        return current().decimal(math.exp(log_e))
    return readable(log_e).replace(".", current().decimal(0.5, 1)[1])


def people(number: int) -> str:
    """Return a number of people."""
    return ngettext("{n} person", "{n} people", number).format(n=whole(number))


def outcomes(number: int) -> str:
    """Return a number of outcomes."""
    return ngettext("{n} outcome", "{n} outcomes", number).format(n=whole(number))


def day(time: str) -> str:
    """Return the day of the time of an entry; nothing if there is none.

    Examples
    --------
    >>> day("2026-11-17T09:00:00Z"), day("")
    ('2026-11-17', '')
    """
    return current().day(datetime.fromisoformat(time)) if time else ""


def state_word(state: int) -> str:
    """Return a state in words.

    Examples
    --------
    >>> state_word(1), state_word(0), state_word(-1)
    ('good', 'bad', 'not known')
    """
    return {0: _("bad"), 1: _("good")}.get(state, _("not known"))
