"""The ledger: its entries, and the public head."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Request, Response

from meritfair.programme.users import Role
from meritfair.web.api.dependencies import Reading, reads
from meritfair.web.api.participants import Limit, Offset
from meritfair.web.api.response_models import EntryOut, HeadOut, LedgerPage
from meritfair.web.api.responses import link_next

router = APIRouter(prefix="/api/v1/programmes/{programme}/ledger", tags=["ledger"])


@router.get("", operation_id="list_entries", summary="Entries of the ledger")
def list_entries(
    reading: Annotated[Reading, reads(Role.AUDITOR)],
    request: Request,
    response: Response,
    offset: Offset = 0,
    limit: Limit = 100,
) -> LedgerPage:
    """Return entries in order, with who made them and their hashes. The whole ledger is in an export."""
    snapshot = reading.snapshot
    found = [EntryOut.model_validate(asdict(each)) for each in snapshot.entry_lines(offset, offset + limit)]
    link_next(request, response, offset, limit, snapshot.entries)
    return LedgerPage(total=snapshot.entries, offset=offset, head=snapshot.head, entries=found)


@router.get("/head", operation_id="get_head", summary="The public head")
def get_head(reading: Annotated[Reading, reads(Role.VIEWER)]) -> HeadOut:
    """Return the hash of the last entry. Whoever keeps it can tell if anything before it is ever changed."""
    snapshot = reading.snapshot
    return HeadOut(
        programme=snapshot.name,
        identity=snapshot.identity,
        entries=snapshot.entries,
        time=snapshot.time,
        head=snapshot.head,
    )
