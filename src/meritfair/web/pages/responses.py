"""What pages answer after something was done: the next page, and a word on what came of it."""

from __future__ import annotations

from typing import Any

from fastapi.responses import RedirectResponse
from starlette.responses import Response

from meritfair.core.language import _, ngettext
from meritfair.web.access import Here
from meritfair.web.rendering import number, path

_MOST = 10**9  # people that a page can speak of; an address can say any number


def is_htmx(here: Here) -> bool:
    """Return whether a part of a page is asked for, not a page."""
    headers = here.request.headers
    return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"


def go(here: Here, *parts: Any, **query: Any) -> Response:
    """Return the answer that leads a browser to another page."""
    target = path(*parts, **query)
    if is_htmx(here):
        return Response(status_code=204, headers={"HX-Redirect": target})
    return RedirectResponse(target, 303)


def said(code: str, n: int = 0) -> str:
    """Return what a page says first, by a code in its address; nothing for codes that there are not."""
    n = min(max(n, 0), _MOST)
    texts = {
        "drawn": _("The round is drawn: this is the list."),
        "committed": _("The round is committed. It is drawn when its public value is known."),
        "closed": _("The round is closed. What comes later can still be reported."),
        "moved": _("Someone else was faster: this is how the programme stands now."),
        "created": _("The programme is created. Enrol the people who take part."),
        "discarded": _("The file is discarded; nothing was changed."),
        "report": ngettext("The outcome of {n} person is saved.", "The outcomes of {n} people are saved.", n),
        "correct": ngettext("The outcome of {n} person is corrected.", "The outcomes of {n} people are corrected.", n),
        "enrol": ngettext("{n} person is enrolled.", "{n} people are enrolled.", n),
        "played": ngettext("{n} round was played.", "{n} rounds were played.", n),
    }
    return texts.get(code, "").format(n=number(n))
