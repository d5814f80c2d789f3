"""The list of policies: those that users register, those of installed packages, and policies made from functions."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair.cli import main
from meritfair.policies import (
    Lottery,
    Policy,
    PriorityTable,
    View,
    create,
    names,
    register,
    registry,
)
from meritfair.policies.own import policy_from_function
from meritfair.policies.registry import from_settings
from meritfair.programme.settings import Part

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own-policy"
ARMS = mf.datasets.cpap(n_arms=5, seed=1)
QUICK: dict[str, Any] = {"budget": 2, "episodes": 3, "horizon": 10, "runs": 2, "seed": 1}
OWN = list(registry._POLICIES)

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from meritfair.policies import Lottery, Policy


@dataclass(frozen=True)
class Everyone(Policy):
    '''Draws everyone alike.'''

    name: ClassVar[str] = "everyone"
    weight: float = 2.0

    def plan(self, view):
        return Lottery(np.full(view.counts.visits.shape[:-2], self.weight))


def all_alike(view, weight=1.0):
    '''Draws all alike.'''
    return Lottery(np.full(view.counts.visits.shape[:-2], weight))


def needs(view, weight):
    return all_alike(view, weight)


number = 3
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave policies, installed packages and loaded modules as they were."""
    monkeypatch.setattr(registry, "_POLICIES", {name: registry._POLICIES[name] for name in OWN})
    registry._installed.cache_clear()
    loaded = set(sys.modules)
    yield
    registry._installed.cache_clear()
    for name in set(sys.modules) - loaded:
        if name.startswith(("plugin", "meritfair_considerate")):
            del sys.modules[name]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what installs a package with entry points, as pip leaves it behind."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(entry_points: dict[str, str], code: str = PLUGIN, module: str = "plugin") -> None:
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[meritfair.policies]", *lines, ""]))
        (tmp_path / f"{module}.py").write_text(code)
        registry._installed.cache_clear()

    return write


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what calls the command line, and gives exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return run


def lottery(view: View, weight: float = 1.0) -> Lottery:
    return Lottery(np.full(view.counts.visits.shape[:-2], weight))


# ---- register


def test_a_class_is_known_by_its_name() -> None:
    @register
    @dataclass(frozen=True)
    class Mine(Policy):
        name: ClassVar[str] = "mine"
        weight: float = 1.0

        def plan(self, view: View) -> Lottery:
            return lottery(view, self.weight)

    assert names() == [*OWN, "mine"]
    assert create("mine", weight=3.0) == Mine(3.0)
    assert mf.simulate(ARMS, create("mine"), **QUICK).settings["policy"] == {"name": "mine", "weight": 1.0}
    with pytest.raises(mf.InputError, match="mine has no setting 'wait', did you mean 'weight'"):
        create("mine", wait=3.0)
    with pytest.raises(mf.InputError, match="there is no policy 'mines', did you mean 'mine'"):
        create("mines")


def test_a_function_is_known_by_its_name_and_stays_a_function() -> None:
    @register
    def to_all_alike(view: View, weight: float = 1.0) -> Lottery:
        return lottery(view, weight)

    assert inspect.isfunction(to_all_alike)
    assert names() == [*OWN, "to-all-alike"]
    made = create("to-all-alike", weight=2.0)
    assert isinstance(made, Policy)
    assert repr(made) == "to-all-alike(weight=2.0)"


def test_what_is_defined_again_takes_the_place_of_the_old() -> None:
    for factor in (1.0, 2.0):  # as when a cell of a notebook is run again

        @register
        def twice(view: View, weight: float = factor) -> Lottery:
            return lottery(view, weight)

        @register
        @dataclass(frozen=True)
        class Again(Policy):
            name: ClassVar[str] = "again"
            weight: float = factor

            def plan(self, view: View) -> Lottery:
                return lottery(view, self.weight)

        assert [create(name).settings() for name in ("twice", "again")] == [{"weight": factor}] * 2
    assert names() == [*OWN, "twice", "again"]


def test_a_name_is_given_once() -> None:
    def random(view: View) -> Lottery:
        return lottery(view)

    @dataclass(frozen=True)
    class Other(Policy):
        name: ClassVar[str] = "merit-fair"

        def plan(self, view: View) -> Lottery:
            return lottery(view)

    for policy, name in ((random, "random"), (Other, "merit-fair")):
        with pytest.raises(mf.InputError, match=f"there is a policy '{name}' already"):
            register(policy)
    assert type(create("random")) is mf.Random
    assert type(create("merit-fair")) is mf.MeritFair


class Nameless(Policy):
    def plan(self, view: View) -> Lottery:
        return lottery(view)


class EmptyName(Nameless):
    name: ClassVar[str] = ""


class NumberName(Nameless):
    name: ClassVar[Any] = 3


@pytest.mark.parametrize("policy", [Nameless, EmptyName, NumberName, Policy])
def test_a_policy_needs_a_name(policy: Any) -> None:
    with pytest.raises(mf.InputError, match=rf"a policy needs a name, .*: <class '.*{policy.__name__}'> has none"):
        register(policy)
    assert names() == OWN


def test_a_policy_need_not_be_a_dataclass() -> None:
    class Plain(Policy):
        name = "plain"

        def plan(self, view: View) -> Lottery:
            return lottery(view)

    assert list(mf.compare(ARMS, [Plain()], **QUICK).runs) == ["plain"]


def test_a_policy_without_a_name_cannot_be_played() -> None:
    for attempt in (
        lambda: mf.simulate(ARMS, Nameless(), **QUICK),
        lambda: mf.compare(ARMS, [Nameless()], **QUICK),
        lambda: Nameless().start(3, 1),
    ):
        with pytest.raises(mf.InputError, match=r"a policy needs a name, .*Nameless object .* has none"):
            attempt()


@pytest.mark.parametrize("name", ["a:b", " a", "a:b=1"])
def test_a_name_can_be_typed(name: str) -> None:
    with pytest.raises(mf.InputError, match=f"must have no colon and no blanks around it, got '{name}'"):
        register(policy_from_function(lottery, name))
    assert names() == OWN


def test_a_text_may_have_settings_which_come_first() -> None:
    assert create("optimal:delta=0.2,estimate=mean", delta=0.3) == mf.Optimal(delta=0.2, estimate="mean")
    merit = mf.Affine(1.0, 1.5)
    assert create("merit-fair:merit=affine:slope=1:intercept=1.5,delta=0.2") == mf.MeritFair(merit=merit, delta=0.2)
    assert create("fair-oracle", merit="power") == mf.FairOracle(merit=mf.Power())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("merit-fair:merit=exponentail:c=1", "merit must be one of exponential, .*, got 'exponentail', did you mean"),
        ("merit-fair:merit=exponential:d=1", "exponential merit has no setting 'd'; its settings are c"),
        ("merit-fair:merit=exponential:c=-1", "c must lie between 0 and 700, got -1"),
        ("merit-fair:merit=exponential:c=x", "c must be a number, got 'x'"),
        ("merit-fair:merit=exponential:c", "settings are written .*, got 'exponential:c'"),
        ("merit-fair:merit=3", "merit must be a merit function .*, got 3"),
        ("random:merit=exponential:c=1", "random has no setting 'merit'"),
        (None, "there is no policy None"),
    ],
)
def test_a_wrong_merit_is_named(text: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        create(text)


@pytest.mark.parametrize("thing", [mf.Random(), None, "random", 3, int, Lottery, [lottery]])
def test_what_is_not_a_policy_is_refused(thing: Any) -> None:
    with pytest.raises(mf.InputError, match="a policy must be a class derived from Policy, or a function that plans"):
        register(thing)
    assert names() == OWN


# ---- installed packages


def test_a_package_brings_policies(install: Any) -> None:
    install({"everyone": "plugin:Everyone", "all-alike": "plugin:all_alike"})
    assert names() == [*OWN, "everyone", "all-alike"]
    assert "plugin" not in sys.modules  # what is only listed is not loaded
    everyone, alike = create("everyone", weight=3.0), create("all-alike")
    assert repr(everyone) == "Everyone(weight=3.0)"
    assert repr(alike) == "all-alike(weight=1.0)"
    assert names() == [*OWN, "everyone", "all-alike"]
    assert type(create("everyone")) is type(everyone)
    runs = [mf.simulate(ARMS, policy, **QUICK) for policy in (everyone, alike, mf.Random())]
    assert runs[0].settings["policy"] == {"name": "everyone", "weight": 3.0}
    assert from_settings(runs[0].settings["policy"]) == everyone
    for run in runs[:2]:
        np.testing.assert_array_equal(run.fairness_regret, runs[2].fairness_regret)


def test_packages_add_up_and_their_names_are_suggested(install: Any) -> None:
    install({"everyone": "plugin:Everyone"})
    install({"all-alike": "plugin_too:all_alike"}, module="plugin_too")
    assert sorted(names()[len(OWN) :]) == ["all-alike", "everyone"]
    with pytest.raises(mf.InputError, match="there is no policy 'all-alik', did you mean 'all-alike'"):
        create("all-alik")


@pytest.mark.parametrize(
    ("value", "code", "reason"),
    [
        ("plugin:Everyone", "import a_module_that_is_not_there", "No module named 'a_module_that_is_not_there'"),
        ("plugin:Everyone", "1 / 0", "division by zero"),
        ("plugin:Everyone", "import sys; sys.exit(3)", "SystemExit(3)"),
        ("plugin:Everyone", "import asyncio; raise asyncio.CancelledError", "CancelledError()"),
        ("plugin:Everyone", "def broken(:", "invalid syntax"),
        ("plugin:Nobody", PLUGIN, "has no attribute 'Nobody'"),
        ("plugin_elsewhere:Everyone", PLUGIN, "No module named 'plugin_elsewhere'"),
        ("plugin:number", PLUGIN, "a policy must be a class derived from Policy, or a function that plans, got 3"),
        ("plugin:needs", PLUGIN, "the setting 'weight' of the policy 'needs' needs a default"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named_and_harms_no_other(
    install: Any, value: str, code: str, reason: str
) -> None:
    install({"broken": value, "everyone": "plugin_too:Everyone"}, code)
    (Path(sys.path[0]) / "plugin_too.py").write_text(PLUGIN)
    for _ in range(2):  # it stays broken, and stays named
        with pytest.raises(mf.InputError) as raised:
            create("broken")
        assert str(raised.value).startswith(f"the policy 'broken', {value}, could not be loaded: ")
        assert reason in str(raised.value)
        assert set(names()) == {*OWN, "broken", "everyone"}
    assert create("everyone").name == "everyone"
    assert create("random") == mf.Random()


def test_an_interrupt_while_a_package_is_loaded_is_an_interrupt(install: Any) -> None:
    install({"everyone": "plugin:Everyone"}, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        create("everyone")


def test_a_package_must_call_its_policy_as_its_entry_point_does(install: Any) -> None:
    install({"someone": "plugin:Everyone", "alike": "plugin:all_alike"})
    with pytest.raises(mf.InputError, match="the policy 'someone', plugin:Everyone, calls itself 'everyone'"):
        create("someone")
    with pytest.raises(mf.InputError, match="the policy 'alike', plugin:all_alike, calls itself 'all-alike'"):
        create("alike")
    assert names() == [*OWN, "someone", "alike"]


def test_a_package_cannot_take_the_name_of_another_policy(install: Any) -> None:
    install({"random": "plugin:Everyone", "everyone": "plugin:Everyone"})
    assert names() == [*OWN, "everyone"]
    assert create("random") == mf.Random()

    @register
    def everyone(view: View) -> Lottery:  # who registers one comes first, too
        return lottery(view)

    assert names() == [*OWN, "everyone"]
    assert repr(create("everyone")) == "everyone()"
    assert "plugin" not in sys.modules


def test_all_policies_are_compared_but_for_the_broken_ones(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: registry.policy_class(name) for name in ("none", "whittle", "merit-fair")}
    monkeypatch.setattr(registry, "_POLICIES", few)
    install({"broken": "plugin:Nobody", "everyone": "plugin:Everyone"})
    found = mf.compare(ARMS, **QUICK)
    assert list(found.runs) == ["none", "whittle", "merit-fair", "everyone", "recommended"]
    assert list(found.skipped) == ["broken"]
    assert "the policy 'broken', plugin:Nobody, could not be loaded" in found.skipped["broken"]


def test_the_command_line_knows_installed_policies(install: Any, call: Any) -> None:
    install({"everyone": "plugin:Everyone"})
    code, out, _ = call("policies")
    assert code == 0
    (line,) = (line for line in out.splitlines() if line.startswith("everyone"))
    assert line.split() == ["everyone", "Draws", "everyone", "alike.", "weight=2.0"]
    told = json.loads(call("policies", "--json")[1])
    assert [each["name"] for each in told] == [*OWN, "everyone"]
    assert told[-1] == {"name": "everyone", "summary": "Draws everyone alike.", "settings": {"weight": 2.0}}
    quick = ["-d", "cpap", "--episodes", "2", "--horizon", "5", "--runs", "2", "--seed", "1", "--json"]
    code, out, _ = call("compare", *quick, "-p", "everyone:weight=4", "-p", "random")
    assert code == 0
    assert json.loads(out)["settings"]["policies"]["everyone:weight=4"] == {"name": "everyone", "weight": 4}


def test_the_command_line_lists_policies_though_one_is_broken(install: Any, call: Any) -> None:
    install({"broken": "plugin:Nobody", "odd": "plugin:Everyone", "all-alike": "plugin:all_alike"})
    reasons = [
        "skipped: the policy 'broken', plugin:Nobody, could not be loaded: module 'plugin' has no attribute 'Nobody'",
        "skipped: the policy 'odd', plugin:Everyone, calls itself 'everyone'",
    ]
    code, out, _ = call("policies")
    assert code == 0
    assert out.splitlines()[-2:] == reasons
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("random", "all-alike", "odd"))] == [
        "random",
        "all-alike",
    ]
    code, out, err = call("policies", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(out)] == [*OWN, "all-alike"]
    assert err.splitlines() == reasons


# ---- policies from functions


def by_gain(view: View, weight: float = 1.0, *, kind: str = "mean") -> PriorityTable:
    """Pull whoever gains most."""
    estimated = view.estimated_transitions(kind)
    return PriorityTable(weight * (estimated[..., 1] - estimated[..., 0]))


def test_what_a_function_takes_are_settings() -> None:
    made = policy_from_function(by_gain)
    assert made.name == "by-gain"
    assert made.__doc__ == "Pull whoever gains most."
    policy: Any = made()
    assert (policy.weight, policy.kind) == (1.0, "mean")
    assert policy.settings() == {"weight": 1.0, "kind": "mean"}
    assert repr(made(kind="pooled")) == "by-gain(weight=1.0, kind='pooled')"  # type: ignore[call-arg]
    assert made() == made()
    assert made(weight=2.0) != made()  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.weight = 2.0


def test_settings_reach_the_function() -> None:
    made: Any = policy_from_function(by_gain)
    best, worst = (mf.simulate(ARMS, made(weight), **QUICK | {"episodes": 60}) for weight in (1.0, -1.0))
    assert best.reward.sum() > worst.reward.sum()
    assert worst.settings["policy"] == {"name": "by-gain", "weight": -1.0, "kind": "mean"}


def test_a_function_can_be_played_as_it_is() -> None:
    run, same = mf.simulate(ARMS, by_gain, **QUICK), mf.simulate(ARMS, policy_from_function(by_gain)(), **QUICK)
    assert run.policy == "by-gain"
    assert run.settings == same.settings
    np.testing.assert_array_equal(run.visits, same.visits)


def test_a_name_can_be_given() -> None:
    assert policy_from_function(by_gain, "mine").name == "mine"
    assert repr(policy_from_function(by_gain, "mine")()) == "mine(weight=1.0, kind='mean')"


@pytest.mark.parametrize(
    "function", [lambda view, weight: lottery(view), lambda view, *, weight: lottery(view)], ids=["place", "keyword"]
)
def test_every_setting_needs_a_default(function: Any) -> None:
    for use in (policy_from_function, register, lambda f: mf.simulate(ARMS, f, **QUICK)):
        with pytest.raises(mf.InputError, match=r"the setting 'weight' of the policy '.*' needs a default"):
            use(function)


def test_it_is_made_again_from_a_file(tmp_path: Path) -> None:
    usual = mf.Exponential(2.0)

    def merited(view: View, merit: mf.Merit = usual, bounds: tuple[float, ...] = (0.1, 0.9)) -> Lottery:
        return Lottery(merit(view.counts.mean[..., 0, 1]))

    register(merited)
    run = mf.simulate(ARMS, merited, **QUICK)
    assert run.settings["problem"]["merit"] == {"kind": "exponential", "c": 3.0}  # a function says no criterion
    run.save(tmp_path / "run.parquet")
    kept = mf.Run.load(tmp_path / "run.parquet").settings["policy"]
    assert kept == {"name": "merited", "merit": {"kind": "exponential", "c": 2.0}, "bounds": [0.1, 0.9]}
    again: Any = from_settings(kept)
    assert again.merit == usual
    assert again.settings() == create("merited").settings()


def test_without_being_registered_it_is_not_made_from_settings() -> None:
    run = mf.simulate(ARMS, by_gain, **QUICK)
    with pytest.raises(mf.InputError, match="there is no policy 'by-gain'"):
        from_settings(run.settings["policy"])


# ---- the example


def example_entry() -> tuple[str, str]:
    """Return name and value of the only entry point of the example."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"]) == {"meritfair.policies"}
    ((name, value),) = project["entry-points"]["meritfair.policies"].items()
    return name, value


@pytest.fixture
def example(install: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install the example; return the name of its policy."""
    name, value = example_entry()
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    install({name: value}, code="", module="plugin_example")
    return name


def test_the_example_is_found_by_its_entry_point(example: str) -> None:
    name, value = example_entry()
    found = EntryPoint(name, value, "meritfair.policies").load()
    assert issubclass(found, Policy)
    assert found.name == name == "considerate"
    assert names() == [*OWN, name]
    assert create(name, patience=10) == found(patience=10)
    for settings, message in (
        ({"need": 2.0}, "need must lie between 0 and 1"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"exploration": -0.1}, "exploration must lie between 0 and 1"),
    ):
        with pytest.raises(mf.InputError, match=message):
            create(name, **settings)


@pytest.mark.slow
def test_nobody_waits_too_long_in_the_example(example: str) -> None:
    problem: dict[str, Any] = {**QUICK, "episodes": 40, "horizon": 25}
    for patience in (2, 7):
        waits = mf.simulate(ARMS, create(example, patience=patience), **problem).longest_wait
        assert patience <= waits.max() <= patience + 5 / 2
    assert mf.simulate(ARMS, create(example, patience=10**6), **problem).longest_wait.max() > 20


def test_the_page_on_own_policies_shows_the_example(example: str) -> None:
    page, module = (ROOT / "docs" / "own-policy.md").read_text(), sys.modules[type(create(example)).__module__]
    for shown in (module.rank, module.learn, module.explore, type(create(example)).plan):
        assert inspect.getsource(shown) in page
    assert '"{}:{}"'.format(*example_entry()[1].split(":")) in page


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"patience": 2, "exploration": 0.3}])
def test_the_example_passes_the_checks(example: str, settings: dict[str, Any]) -> None:
    mf.testing.check_policy(create(example, **settings))


def test_what_is_recommended_is_one_thing_everywhere() -> None:
    recommended = create("recommended")
    assert recommended == mf.MeritFair(estimate="pooled", design="exact", slack=2)
    assert create(registry.RECOMMENDED_TEXT) == recommended == Part(5).policy
    assert create("recommended:slack=1", floor=0.1) == mf.MeritFair(
        estimate="pooled", design="exact", slack=1, floor=0.1
    )
    with pytest.raises(mf.InputError, match="there is a policy 'recommended' already"):
        mf.policies.register(type("Own", (mf.MeritFair,), {"name": "recommended"}))
    pages = ROOT / "docs"
    for name in ("settings.md", "live.md"):
        assert 'mf.MeritFair(estimate="pooled", design="exact", slack=2)\n' in (pages / name).read_text(
            encoding="utf-8"
        )
    for name in ("policies.md", "comparing.md"):
        assert f"`{registry.RECOMMENDED_TEXT}`" in (pages / name).read_text(encoding="utf-8")
