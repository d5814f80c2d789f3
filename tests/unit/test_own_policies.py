"""Policies of your own: functions that plan, and what is defined in files."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.parsing import is_own, split_name, split_settings
from meritfair.policies import Learner, PriorityTable, View, create
from meritfair.policies.own import PolicySource
from meritfair.policies.registry import from_settings
from meritfair.programme.settings import Part
from meritfair.scenarios.options import scenarios_of

ARMS = mf.datasets.cpap(n_arms=5, seed=1)
QUICK: dict[str, Any] = {"budget": 2, "episodes": 3, "horizon": 10, "runs": 2, "seed": 1}
MINE = '''
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import meritfair as mf
from meritfair.policies import Lottery, PriorityTable


def gain_first(view, need=0.0, slack=0.0):
    """Pulls those to whom a pull seems to gain most."""
    mean = view.counts.mean
    return PriorityTable(mean[..., 1] - mean[..., 0] + need * np.array([1.0, 0.0]))


@dataclass(frozen=True)
class Even(mf.Policy):
    name: ClassVar[str] = "even"
    adopts: ClassVar[tuple[str, ...]] = ("design",)
    design: str = "sequential"

    def plan(self, view):
        return Lottery(np.ones(view.n_arms), self.design)


class Abstract(mf.Policy):
    name = "abstract"


cautious = mf.MeritFair(estimate="mean", design="exact", floor=0.05)
number = 3


def wrong(view):
    return np.ones(view.n_arms)


def fails(view):
    return view.nothing


def nothing():
    return None
'''


def gain_first(view: View, need: float = 0.0, slack: float = 0.0) -> PriorityTable:
    """Pull those to whom a pull seems to gain most."""
    mean = view.counts.mean
    return PriorityTable(mean[..., 1] - mean[..., 0] + need * np.array([1.0, 0.0]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a file of policies in it."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- functions


def test_a_function_has_what_a_policy_has() -> None:
    policy = mf.policy(gain_first, need=0.5)
    assert repr(policy) == "gain-first(need=0.5, slack=0.0)"
    assert policy == mf.policy(gain_first, need=0.5) != mf.policy(gain_first)
    learner = policy.start(names=["Ada", "Bo", "Cy"], budget=1, seed=1)
    assert learner.choose([0, 1, 1]).exposure.sum() == pytest.approx(1)
    run = mf.simulate(ARMS, policy, **QUICK)
    assert run.settings["policy"] == {"name": "gain-first", "need": 0.5, "slack": 0.0}
    mf.testing.check_policy(policy)


def test_whatever_says_a_policy_is_one() -> None:
    assert mf.policy("merit-fair:slack=0", design="exact") == mf.MeritFair(design="exact")
    assert mf.policy("recommended") == create("recommended")
    assert mf.policy(mf.MeritFair(delta=0.1)) == mf.MeritFair(delta=0.1)
    assert mf.policy(mf.MeritFair(delta=0.1), merit="exponential:c=1") == mf.MeritFair(mf.Exponential(1), delta=0.1)
    assert mf.policy(mf.policy(gain_first), need=1.0).settings() == {"need": 1.0, "slack": 0.0}


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        (gain_first, {"ned": 1}, "gain-first has no setting 'ned', did you mean 'need'?"),
        (mf.Random(), {"need": 1}, "random has no setting 'need'; it has none"),
        (mf.Random, {}, "policy must be a Policy, such as MeritFair"),
        (3, {}, "policy must be a Policy, such as MeritFair"),
        (lambda: None, {}, "must take the view as its first argument"),
        (lambda states, counts: None, {}, "'counts' .* needs a default: the function is called with the view alone"),
    ],
)
def test_what_is_no_policy_says_why(given: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.policy(given, **settings)


def test_what_a_function_returns_is_checked_by_its_name() -> None:
    def numbers(view: View) -> Any:
        return np.ones(view.n_arms)

    with pytest.raises(mf.InputError, match=r"^the policy 'numbers' must plan a Lottery, .*, got array"):
        mf.simulate(ARMS, numbers, **QUICK)
    with pytest.raises(mf.InputError, match=r"^the policy 'numbers' must plan a Lottery, .*, got array"):
        mf.policy(numbers).start(3, 1, seed=1).choose([0, 0, 0])


def test_a_saved_learner_of_a_function_asks_for_it(tmp_path: Path) -> None:
    learner = mf.policy(gain_first).start(3, 1, seed=1)
    learner.save(tmp_path / "learner.json")
    with pytest.raises(mf.FileError, match="there is no policy 'gain-first' that could be made by its name here: give"):
        Learner.load(tmp_path / "learner.json")
    assert Learner.load(tmp_path / "learner.json", mf.policy(gain_first)).policy.name == "gain-first"


# ---- names in files


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("mine.py:gain_first", "mine.py:gain_first", ""),
        ("mine.py:gain_first:need=0.5,slack=1", "mine.py:gain_first", "need=0.5,slack=1"),
        ("a folder/mine.py:gain_first:need=1", "a folder/mine.py:gain_first", "need=1"),
        (r"C:\work\mine.py:gain_first", r"C:\work\mine.py:gain_first", ""),
        ("mine.py", "mine.py", ""),
        ("clinic.policies:gain_first:need=1", "clinic.policies:gain_first", "need=1"),
        ("clinic.policies:need=1", "clinic.policies", "need=1"),
        ("mine.py:need=1", "mine.py", "need=1"),
        ("merit-fair:merit=affine:slope=1", "merit-fair", "merit=affine:slope=1"),
        ("happy:x=1", "happy", "x=1"),
        ("random", "random", ""),
    ],
)
def test_a_file_and_what_it_defines_are_one_name(text: str, name: str, settings: str) -> None:
    assert split_name(text) == (name, settings)
    assert split_settings(text)[0] == name
    assert is_own(name) == (".p" in name and name != "clinic.policies")
    assert not is_own(text) or not settings


def test_a_policy_in_a_file_plays_as_the_function_does(folder: Path) -> None:
    there, here = (mf.simulate(ARMS, each, **QUICK) for each in ("mine.py:gain_first:need=0.5", mf.policy(gain_first)))
    same = mf.simulate(ARMS, mf.policy(gain_first, need=0.5), **QUICK)
    assert there.settings == same.settings
    np.testing.assert_array_equal(there.visits, same.visits)
    assert (there.visits != here.visits).any()  # with another need


def test_a_file_may_have_functions_classes_and_policies(folder: Path) -> None:
    assert mf.policy("mine.py:cautious") == mf.MeritFair(estimate="mean", design="exact", floor=0.05)
    assert mf.policy("mine.py:cautious:floor=0.1", cap=0.9).settings()["floor"] == 0.1
    assert mf.policy("mine.py:Even").name == "even"
    assert mf.policy(f"{folder}/mine.py:gain_first") == mf.policy("mine.py:gain_first")  # and the file is run once


def test_a_class_in_a_file_takes_over_what_it_adopts(folder: Path) -> None:
    criterion = mf.Criterion(design="exact")
    run = mf.simulate(ARMS, "mine.py:Even", **QUICK, criterion=criterion)
    assert run.settings["policy"] == {"name": "even", "design": "exact"}
    run = mf.simulate(ARMS, "mine.py:Even:design=systematic", **QUICK, criterion=criterion)
    assert run.settings["policy"]["design"] == "systematic"


def test_a_changed_file_is_another_policy(folder: Path) -> None:
    before = mf.policy("mine.py:gain_first")
    (folder / "mine.py").write_text(MINE.replace("need=0.0", "need=0.25"))
    assert before.settings()["need"] == 0.0
    assert mf.policy("mine.py:gain_first").settings()["need"] == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clinic.policies:f", "the module clinic.policies cannot be imported: ModuleNotFoundError: No module named"),
        ("meritfair.testing:nothing", "meritfair.testing: there is no policy 'nothing'"),
        ("nine.py:gain_first", "nine.py: there is no such file"),
        ("mine.py:gain_frist", "mine.py: there is no policy 'gain_frist', did you mean 'gain_first'?"),
        (
            "mine.py",
            "say which policy of mine.py: mine.py:gain_first, mine.py:Even, mine.py:Abstract, mine.py:cautious, "
            "mine.py:wrong, mine.py:fails, mine.py:nothing",
        ),
        ("mine.py:number", "mine.py:number must be a policy, or a function that plans, got 3"),
        ("mine.py:np", "mine.py:np must be a policy, or a function that plans, got <module"),
        ("mine.py:nothing", "the policy 'nothing' must take the view as its first argument"),
        ("mine.py:Abstract", "the policy 'abstract' has no method plan"),
        ("mine.py:gain_first:ned=1", "mine.py:gain_first has no setting 'ned', did you mean 'need'?"),
        ("mine.py:gain_first:need", "settings are written name:key=value"),
        ("empty.py", "say which policy of empty.py: it defines none"),
        ("broken.py:f", "broken.py, line 2: is not Python: "),
        ("raising.py:f", "raising.py, line 1: ZeroDivisionError: division by zero"),
        ("importing.py:f", "importing.py, line 1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("leaving.py:f", "leaving.py, line 1: SystemExit: 3"),
        ("latin.py:f", "latin.py: is not text in UTF-8"),
    ],
)
def test_what_cannot_be_read_from_a_file_says_why(folder: Path, text: str, message: str) -> None:
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_text("x = 1\ndef f(view:\n")
    (folder / "raising.py").write_text("def f(): return 1 / 0\nf()\n")
    (folder / "importing.py").write_text("import nowhere_to_be_found\n")
    (folder / "leaving.py").write_text("raise SystemExit(3)\n")
    (folder / "latin.py").write_bytes("# é\n".encode("latin-1"))
    with pytest.raises(mf.InputError) as raised:
        mf.policy(text)
    assert message in str(raised.value)


def test_only_the_user_of_a_process_can_have_a_file_run(folder: Path) -> None:
    # Names of policies also come from ledgers, learners and requests to a server, which may be anyone's.
    (folder / "evil.py").write_text("import pathlib\npathlib.Path('ran').touch()\ndef f(view): ...\n")
    for use in (
        lambda: create("evil.py:f"),
        lambda: from_settings({"name": "evil.py:f"}),
        lambda: Part(2, "evil.py:f"),
        lambda: Learner.from_dict(mf.Random().start(3, 1, seed=1).to_dict() | {"policy": {"name": "evil.py:f"}}),
    ):
        with pytest.raises(mf.InputError):
            use()
    assert not (folder / "ran").exists()
    mf.policy("evil.py:f")
    assert (folder / "ran").exists()


# ---- everywhere


def test_they_are_compared_with_others(folder: Path) -> None:
    found = mf.compare(ARMS, ["mine.py:gain_first", "mine.py:gain_first:need=1", gain_first, "random"], **QUICK)
    assert list(found.runs) == ["mine.py:gain_first", "mine.py:gain_first:need=1", "gain-first", "random"]
    np.testing.assert_array_equal(found.runs["mine.py:gain_first"].visits, found.runs["gain-first"].visits)
    with pytest.raises(mf.InputError, match=r"mine.py:wrong cannot be played here: the policy 'wrong' must plan a"):
        mf.compare(ARMS, ["mine.py:wrong"], **QUICK)


def test_settings_that_vary_are_told_from_the_name(folder: Path) -> None:
    found = mf.compare(ARMS, ["mine.py:gain_first", "mine.py:gain_first:need=1"], **QUICK, slack=[0, 2])
    name = "mine.py:gain_first"
    assert list(found.runs) == [f"{name}:{more}slack={slack}" for more in ("", "need=1,") for slack in (0, 2)]
    asked = scenarios_of(["mine.py:gain_first:need=1,slack=0"], [2], 5, {"slack": [0.0, 1.0]})
    assert [each.name for each in asked] == [f"{name}:need=1, budget 2, slack {slack}" for slack in (0, 1)]
    (alone, _) = scenarios_of(["mine.py:gain_first:slack=0"], [2], 5, {"slack": [0.0, 1.0]})
    assert alone.label == name


# ---- for other processes


def test_where_a_function_is_defined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = PolicySource.of(mf.policy("mine.py:gain_first"))
    assert source == PolicySource("mine.py", "gain_first", MINE)
    assert source == PolicySource.read("mine.py:gain_first")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    import mine  # type: ignore[import-not-found]

    assert PolicySource.of(mf.policy(mine.gain_first)) == source
    assert PolicySource.of(mine.Even()).name == "mine.py:Even"
    (folder / "mine.py").unlink()
    loaded: Any = source.load()
    assert loaded(need=1.0).settings() == {"need": 1.0, "slack": 0.0}  # of the text alone
    assert source.version.startswith("mine.py ")
    assert source.version != PolicySource("mine.py", "gain_first", MINE + "# another\n").version


def test_what_other_processes_cannot_make_is_refused() -> None:
    def local(view: View) -> PriorityTable:
        return gain_first(view)

    for function in (local, lambda view: gain_first(view), partial(gain_first, need=1.0)):
        with pytest.raises(
            mf.InputError,
            match=r"workers cannot make the policy '.*', \S.* in (.*test_own_policies|functools): put it at the top",
        ):
            PolicySource.of(mf.policy(function))
