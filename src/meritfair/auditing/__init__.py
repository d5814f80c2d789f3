"""Whether draws followed the exposures that were stated: from a log, evidence that may be looked at at any time."""

from meritfair.auditing.accounts import Accounts
from meritfair.auditing.log import DrawLog, read_draws
from meritfair.auditing.report import Audit, AuditTable, Evidence
from meritfair.auditing.weighing import audit

__all__ = ["Accounts", "Audit", "AuditTable", "DrawLog", "Evidence", "audit", "read_draws"]
