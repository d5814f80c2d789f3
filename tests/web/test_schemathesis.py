"""Requests that nobody would think of, made by Schemathesis from the description of the API, as an admin.

No answer may be a 5xx, undescribed or of another form than described, and nothing may be accepted that the description
forbids. One check is left out: that what fits the description is accepted, since no description can say who takes part.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from meritfair.programme.users import Role
from programme.clinics import clinic
from web.clients import serving

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # its own, of its many dependencies

EXAMPLES = 8  # for each operation in each phase that makes them up


def test_nothing_unforeseen_comes_of_any_request(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
        from schemathesis.config import SchemathesisConfig
        from schemathesis.engine import from_schema
        from schemathesis.engine.events import FatalError, NonFatalError, ScenarioFinished

    url = f"sqlite:///{tmp_path / 'programmes.db'}"
    for name in ("calls", "ending"):
        programme = clinic(url, name=name).programme
        programme.enrol(["Ada", "Bo", "Cy"], by="test")  # of whom the examples in the description speak
        programme.draw(by="test")
    web = serving(url, tmp_path, url="http://testserver")
    web.users.add("Ada", {"*": Role.ADMIN}, by="test")
    token = web.users.new_token("Ada", "test", by="test")[1]
    config = SchemathesisConfig.from_dict(_settings(token))
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", web.app, config=config)
    failures, statuses = list[str](), Counter[int]()
    for event in from_schema(schema).execute():
        assert not isinstance(event, FatalError), event
        if isinstance(event, NonFatalError):
            failures.append(str(event.info))
        if isinstance(event, ScenarioFinished):
            answers = [each.response for each in event.recorder.interactions.values() if each.response is not None]
            statuses.update(each.status_code for each in answers)
            failures += _failures(event.recorder)
    assert not failures, "\n".join(failures)
    assert statuses.total() > 1000
    assert {200, 201, 202, 401, 404, 405, 409, 412, 415, 422} <= statuses.keys()  # it came far enough to mean something
    assert _is_whole(web.frame.reader.programme("calls"))


def _settings(token: str) -> dict[str, Any]:
    return {
        "seed": 20261118,
        "headers": {"Authorization": f"Bearer {token}"},
        "generation": {"max-examples": EXAMPLES, "database": "none"},
        "parameters": {"path.programme": "calls"},
        "checks": {"positive_data_acceptance": {"enabled": False}},
        "operations": [{"include-operation-id": "end_programme", "parameters": {"path.programme": "ending"}}],
    }


def _failures(recorder: Any) -> list[str]:
    """Return what was wrong, with the request that shows it."""
    found = []
    for id_, checks in recorder.checks.items():
        for each in checks:
            if each.failure_info is not None:
                case, failure = recorder.cases[id_].value, each.failure_info.failure
                asked = f"{case.method} {case.formatted_path} {dict(case.query or {})} {case.body!r}"
                found.append(f"{failure.title}: {failure.message}\n    {asked[:500]}")
    return found


def _is_whole(programme: Any) -> bool:
    """Return whether the ledger is whole after all that."""
    return bool(programme.verify().whole)
