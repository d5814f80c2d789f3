"""Templates into pages: what all templates know, in the reader's language."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jinja2
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from meritfair.core.language import _, current
from meritfair.programme.keeping import failure_of
from meritfair.programme.ledger.entries import clock_behind, now
from meritfair.programme.ledger.heads import short_code
from meritfair.programme.users import Role
from meritfair.programme.view import NO_GROUP
from meritfair.web.language import LANGUAGES

if TYPE_CHECKING:
    from meritfair.web.access import Here

TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"


@cache
def templates() -> jinja2.Environment:
    """Return what renders the templates; a name that is not there is an error, and all text is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
        optimized=False,  # else what is made of constants is kept in the language of whoever came first
    )
    made.install_gettext_callables(  # type: ignore[attr-defined]
        lambda text: current().gettext(text), lambda one, many, n: current().ngettext(one, many, n), newstyle=True
    )
    made.filters |= {
        "number": number,
        "percent": percent,
        "signed": signed,
        "date": date,
        "datetime": moment,
        "short_code": short_code,
    }
    made.globals |= {
        "Role": Role,
        "LANGUAGES": LANGUAGES,
        "static": static,
        "path": path,
        "language": current,
        "job_words": job_words,
        "group_word": group_word,
        "noticed": noticed,
    }
    return made


def render(template: str, **values: Any) -> str:
    """Return a template with values."""
    return templates().get_template(template).render(**values)


def page(here: Here, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page, or a part of one, for whoever asks."""
    known = {"here": here, "csrf_field": lambda: csrf_field(here), "demo": here.frame.settings.demo}
    return HTMLResponse(render(template, **known, **values), status)


part = page  # a part of a page is rendered alike: its template extends nothing


def noticed(here: Here) -> list[str]:
    """Return what was noticed when something was done that this page answers; nothing on any other page."""
    did = here.request.query_params.get("did")
    if not did or not here.name or not here.may(Role.AUDITOR):
        return []
    look, found = here.look(), list[str]()
    if clock_behind(look.time, now()):
        text = _(
            "The clock of the server is behind the last entry, of {time}. Until it is later, new entries have that "
            "time. Tell whoever runs the server."
        )
        found.append(text.format(time=moment(look.time)))
    unkept = failure_of(here.programme.store, look.identity) if did in ("drawn", "committed", "played") else ""
    if unkept:
        text = _("The draw stands, but its head was not kept elsewhere. Tell whoever runs the server: {problem}")
        found.append(text.format(problem=unkept))
    return found


def csrf_field(here: Here) -> Markup:
    """Return the field that every form has which changes something."""
    return Markup('<input type="hidden" name="csrf" value="{}">').format(here.csrf)


@cache
def static(name: str) -> str:
    """Return the address of a static file; it changes with the file, so browsers may keep it for ever."""
    changed = int((STATIC / name).stat().st_mtime)
    return f"/static/{name}?{version('meritfair')}-{changed:x}"


def path(*parts: Any, **query: Any) -> str:
    """Return an address in this server, with everything encoded.

    Examples
    --------
    >>> path("p", "calls & visits", "people", 17, sort="id")
    '/p/calls%20%26%20visits/people/17?sort=id'
    """
    asked = "&".join(f"{quote(k, safe='')}={quote(str(v), safe='')}" for k, v in query.items() if v not in (None, ""))
    return "/" + "/".join(quote(str(each), safe="") for each in parts) + (f"?{asked}" if asked else "")


def job_words(words: str) -> str:
    """Return what a job has said, in the reader's language if it is known in it, with a capital."""
    text = current().gettext(words)
    return text[:1].upper() + text[1:]


def group_word(name: str) -> str:
    """Return what a group is called; those that stand for no group have a name in every language."""
    return {"all": _("all"), NO_GROUP: _("(none)")}.get(name, name)


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as the reader writes it."""
    return "–" if value is None or value != value else current().decimal(value, digits).replace("-", "−")


def percent(value: float | None, digits: int = 1) -> str:
    """Return a part in percent."""
    return "–" if value is None or value != value else f"{number(100 * value, digits)}\N{NO-BREAK SPACE}%"


def signed(value: float | None, digits: int = 2) -> str:
    """Return a number with its sign; what is 0 with this many digits has none."""
    text = number(value, digits)
    if not any(c in text for c in "123456789"):
        return text.removeprefix("−")
    return f"+{text}" if value is not None and value > 0 else text


def date(time: str | datetime) -> str:
    """Return the day of a time."""
    return current().day(_time(time))


def moment(time: str | datetime) -> str:
    """Return a time, in UTC as the ledger has it; pages turn it into the reader's own."""
    value = _time(time)
    return Markup('<time datetime="{}">{} UTC</time>').format(value.isoformat(), current().moment(value))


def _time(time: str | datetime) -> datetime:
    return time if isinstance(time, datetime) else datetime.fromisoformat(time).astimezone(UTC)
