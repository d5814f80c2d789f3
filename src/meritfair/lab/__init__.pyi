from meritfair.lab.results import Results as Results
from meritfair.lab.results import load as load
from meritfair.lab.results import read_results as read_results
from meritfair.lab.spec import Setting as Setting
from meritfair.lab.spec import Spec as Spec
from meritfair.lab.spec_file import read_spec as read_spec
from meritfair.lab.sweep import run_spec as run_spec
from meritfair.lab.sweep import run_sweep as run_sweep

__all__: list[str]
