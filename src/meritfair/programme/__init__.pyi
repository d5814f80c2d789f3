from meritfair.programme.inputs import Outcomes as Outcomes
from meritfair.programme.inputs import People as People
from meritfair.programme.programme import KeyConflictError as KeyConflictError
from meritfair.programme.programme import Programme as Programme
from meritfair.programme.programme import open as open  # noqa: A004
from meritfair.programme.reporting import Receipt as Receipt
from meritfair.programme.rounds import Drawn as Drawn
from meritfair.programme.rounds import Round as Round
from meritfair.programme.settings import Part as Part
from meritfair.programme.settings import Trial as Trial
from meritfair.programme.showing.person import PersonReport as PersonReport
from meritfair.programme.showing.report import ProgrammeReport as ProgrammeReport
from meritfair.programme.status import Status as Status
from meritfair.programme.storage.store import Store as Store
from meritfair.programme.verifying import Verification as Verification

__all__: list[str]
