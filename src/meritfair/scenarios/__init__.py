"""What another policy would do: the rounds after a log, played on the chains that it leaves possible."""

from meritfair.scenarios.answer import Outlook, WhatIf
from meritfair.scenarios.asking import whatif
from meritfair.scenarios.assumptions import Assumption
from meritfair.scenarios.checking import Check

__all__ = ["Assumption", "Check", "Outlook", "WhatIf", "whatif"]
