"""The viewer's application: pages of one folder of the lab, which change nothing and need no sign-in.

It answers only to the names of this machine itself, so that a page from elsewhere cannot read it through the browser.
"""

from __future__ import annotations

from os import PathLike
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response

from meritfair.core.errors import MeritfairError
from meritfair.core.language import _
from meritfair.lab.side_by_side import FIGURES
from meritfair.web.language import ReaderLanguage
from meritfair.web.middleware import SecurityHeaders
from meritfair.web.rendering import STATIC, render
from meritfair.web.static_files import StaticFiles
from meritfair.web.viewer.choice import choose
from meritfair.web.viewer.contents import Contents, Folder
from meritfair.web.viewer.downloads import PICTURES, TABLES, data, picture
from meritfair.web.viewer.files import POLICY, artefact_files, file_of, type_of
from meritfair.web.viewer.showing import comparison_values, overview_values, report_values
from meritfair.web.viewer.tables import setting_table

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
Figure = Literal["regret", "exposure", "benefit"]
Data = Literal["regret", "exposure", "benefit", "results", "runs", "curves"]
Picture = Literal["svg", "png"]
Table = Literal["csv", "parquet"]

router = APIRouter()


def _folder(request: Request) -> Folder:
    found = request.app.state.folder
    assert isinstance(found, Folder)
    return found


def _contents(folder: Annotated[Folder, Depends(_folder)]) -> Contents:
    return folder.look()


Now = Annotated[Contents, Depends(_contents)]
Sort = Annotated[str, Query(max_length=50)]
Descending = Annotated[bool, Query()]


def _page(request: Request, template: str, now: Contents, **values: Any) -> HTMLResponse:
    return HTMLResponse(render(f"viewer/{template}", now=now, place=request.url.path, **values))


@router.get("/")
def overview(request: Request, now: Now) -> Response:
    """Say what is in the folder."""
    return _page(request, "overview.html", now, **overview_values(now))


@router.get("/compare")
def compare(request: Request, now: Now, sort: Sort = "", descending: Descending = False) -> Response:
    """Show policies on one problem beside each other."""
    choice = choose(now.wording, request.query_params)
    values = comparison_values(now, choice, sort, descending=descending)
    return _page(request, "compare.html", now, choice=choice, sort=sort, **values)


@router.get("/results")
def results(request: Request, now: Now, sort: Sort = "", descending: Descending = False) -> Response:
    """Show a row for each setting."""
    table = setting_table(now.results, now.wording, sort, descending=descending)
    return _page(request, "results.html", now, table=table, query="", sort=sort)


@router.get("/report")
def report(request: Request, now: Now) -> Response:
    """Show the verdicts of a reproduction and its files."""
    if not now.reproduction:
        raise HTTPException(404, _("this folder is not a reproduction of the paper"))
    return _page(request, "report.html", now, **report_values(now), files=artefact_files(now.results.folder))


@router.get("/figure/{figure}.{kind}")
def figure(request: Request, now: Now, figure: Figure, kind: Picture) -> Response:
    """Return a figure of what is picked, as a file."""
    choice = choose(now.wording, request.query_params)
    content = picture(now.results, choice, figure, kind, narrow="narrow" in request.query_params)
    return _download(content, PICTURES[kind], f"{now.name}-{figure}.{kind}", shown="shown" in request.query_params)


@router.get("/data/{what}.{kind}")
def table(request: Request, now: Now, what: Data, kind: Table) -> Response:
    """Return the data of what is picked, as a file."""
    choice = choose(now.wording, request.query_params)
    settings = now.settings if "all" in request.query_params else choice.shown
    if settings is not choice.shown and what in FIGURES:
        raise HTTPException(404, _("a figure has the data of one problem"))
    content = data(now.results, settings, what, kind, choice.regret)
    return _download(content, TABLES[kind], f"{now.name}-{what}.{kind}")


@router.get("/files/{name:path}")
def file(folder: Annotated[Folder, Depends(_folder)], name: str) -> Response:
    """Return a file of a reproduction."""
    found = file_of(folder.path, name)
    if found is None:
        raise HTTPException(404, _("there is no such file"))
    return Response(found.read_bytes(), media_type=type_of(found), headers={"Content-Security-Policy": POLICY})


def _download(content: bytes, media_type: str, name: str, *, shown: bool = False) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    how = "inline" if shown else "attachment"
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'{how}; filename="{plain}"'})


def _mistake(_request: Request, error: Exception) -> Response:
    return _told(422, str(error))


def _unknown(_request: Request, _error: Exception) -> Response:
    return _told(404, _("There is no such page."))  # of this figure, data or kind of file


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    detail = _("There is no such page.") if error.detail == "Not Found" else str(error.detail)
    return _told(error.status_code, detail)


def _told(status: int, detail: str) -> Response:
    return HTMLResponse(render("viewer/error.html", status=status, detail=detail), status)


def create_viewer(path: str | PathLike[str]) -> FastAPI:
    """Return the application that shows a folder; a FileError says why it cannot, if so."""
    folder = Folder(path)
    folder.look()  # what is wrong with it is told before anything is served
    app = FastAPI(title="meritfair view", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.folder = folder
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(MeritfairError, _mistake)
    app.add_exception_handler(RequestValidationError, _unknown)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_middleware(ReaderLanguage)
    app.add_middleware(SecurityHeaders, secure=False)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK], www_redirect=False)
    return app
