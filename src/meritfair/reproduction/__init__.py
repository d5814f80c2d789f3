"""The paper's figures and tables, and what goes beyond them: each a small spec, a pure analysis and a drawing."""

from __future__ import annotations

from meritfair.reproduction.appendix_a import APPENDIX_A
from meritfair.reproduction.appendix_a_slack import APPENDIX_A_SLACK
from meritfair.reproduction.appendix_b import APPENDIX_B
from meritfair.reproduction.bound import THEOREM_5_5
from meritfair.reproduction.designs import DESIGNS
from meritfair.reproduction.estimates import ESTIMATES
from meritfair.reproduction.exposure import FIGURE_1
from meritfair.reproduction.over_time import OVER_TIME
from meritfair.reproduction.pooled import POOLED
from meritfair.reproduction.regret import FIGURES_2_TO_4, OPTIMAL_BOTH_WAYS
from meritfair.reproduction.table1 import TABLE_1

__all__ = ["ARTEFACTS", "BEYOND", "HEADLINES"]

_BEYOND = (ESTIMATES, POOLED, DESIGNS, OVER_TIME, APPENDIX_A_SLACK)
_PAPER = (FIGURE_1, *FIGURES_2_TO_4, TABLE_1, THEOREM_5_5, APPENDIX_A, *APPENDIX_B, OPTIMAL_BOTH_WAYS)
ARTEFACTS = (*_PAPER, *_BEYOND)  # in the order of the report
BEYOND = tuple(each.name for each in _BEYOND)  # those that the paper does not have
HEADLINES = tuple(
    each.name for each in (FIGURES_2_TO_4[0], TABLE_1, ESTIMATES, OVER_TIME)
)  # those to remember, if there are more
