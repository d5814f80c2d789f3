"""The triggers that keep the ledger and the log of users from being edited: whether they are there, and at work.

The scripts in ``migrations`` make them. Whoever owns the tables can drop or disable them, which takes a command of its
own; an edit without that is refused. That they are there now does not say that they always were.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

_LEDGER, _LOG = "the ledger cannot be edited: corrections are new entries", "the log of users cannot be edited"
_REFUSALS = {"entry": _LEDGER, "entry_rows": _LEDGER, "access_log": _LOG}
_EVENTS = ("UPDATE", "DELETE")
_OF_ENTRY = "programme = NEW.programme AND seq = NEW.seq"
_KEYS = {"entry": _OF_ENTRY, "entry_rows": _OF_ENTRY, "access_log": "id = NEW.id"}
_BEFORE_EACH_STATEMENT = 2 | 8 | 16 | 32  # bits of pg_trigger.tgtype: before, delete, update, truncate
_ON_POSTGRESQL = """
SELECT t.tgenabled, t.tgtype, t.tgqual IS NULL, p.prosrc
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass(%(table)s) AND t.tgname = %(name)s
"""


def unprotected(connection: sa.Connection) -> list[str]:
    """Return in words what could be edited now without being refused, nothing if all triggers are at work."""
    if connection.dialect.name == "sqlite":
        return [each for table, refusal in _REFUSALS.items() for each in _missing_on_sqlite(connection, table, refusal)]
    found = [
        each for table, refusal in _REFUSALS.items() for each in _missing_on_postgresql(connection, table, refusal)
    ]
    role = connection.exec_driver_sql("SHOW session_replication_role").scalar()
    return found if role == "origin" else [*found, f"session_replication_role is {role}, so no trigger is at work"]


def _missing_on_sqlite(connection: sa.Connection, table: str, refusal: str) -> list[str]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    there = {str(name): _plain(str(sql)) for name, sql in connection.exec_driver_sql(query, (table,))}
    found = []
    same = (_KEYS[table], "rowid = NEW.rowid")
    known = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {each})" for each in same)
    begins = {f"{table}_no_{event}": f"BEFORE {event} ON {table}" for event in _EVENTS}
    begins[f"{table}_no_REPLACE"] = f"BEFORE INSERT ON {table} WHEN {known}"
    for name, begin in begins.items():
        right = f"CREATE TRIGGER {name} {begin} BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        if name not in there:
            found.append(f"the trigger {name} is missing")
        elif there[name] != right:
            found.append(f"the trigger {name} is not as it was made")
    return found


def _missing_on_postgresql(connection: sa.Connection, table: str, refusal: str) -> list[str]:
    name = f"{table}_no_edit"
    row = connection.exec_driver_sql(_ON_POSTGRESQL, {"table": table, "name": name}).one_or_none()
    if row is None:
        return [f"the trigger {name} is missing"]
    enabled, kind, always, body = row
    if enabled not in ("O", "A"):
        return [f"the trigger {name} is disabled"]
    if kind != _BEFORE_EACH_STATEMENT or not always or _plain(body) != f"BEGIN RAISE EXCEPTION '{refusal}'; END":
        return [f"the trigger {name} is not as it was made"]
    return []


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
