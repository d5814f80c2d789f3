"""Specs: what they make, what they refuse, and how they are read from files."""

from __future__ import annotations

import dataclasses
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair.lab.spec import Setting, Spec, SpecError
from meritfair.lab.spec_file import _KEYS, SpecFile, read_spec
from meritfair.lab.tasks import Task, tasks
from meritfair.policies import Lottery, View

SMALL: dict[str, Any] = {"datasets": ("cpap",), "sizes": ((5, 1),), "policies": ("random",), "episodes": 10}
FILE = {"datasets": '"cpap"', "sizes": "[20, 4]", "policies": '"random"', "episodes": "100"}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what writes a spec from what differs from a small one; a value of None leaves a key out."""
    monkeypatch.chdir(tmp_path)

    def to(**values: str | None) -> Path:
        file = Path("sweep.toml")
        lines = [f"{key} = {value}\n" for key, value in {**FILE, **values}.items() if value is not None]
        file.write_text("# a comment\n" + "".join(lines), encoding="utf-8")
        return file

    return to


def clinic(n_arms: int = 6, seed: int = 1) -> mf.Arms:
    return mf.Arms(mf.datasets.cpap(n_arms, seed=seed).transitions, [f"patient {i}" for i in range(n_arms)])


# --- in Python ---------------------------------------------------------------


def test_a_spec_is_a_product_with_policies_changing_fastest() -> None:
    lists: Any = {
        "datasets": ("cpap", "synthetic"),
        "sizes": ((5, 1), (6, 2)),
        "merits": ("exponential:c=1", "affine"),
        "policies": ("random", "none"),
    }
    spec = Spec(**lists, episodes=7, seed=3, carry_states=True)
    found = spec.settings()
    assert len(found) == len(set(found)) == 16
    assert [setting.policy for setting in found[:4]] == ["random", "none"] * 2
    assert [setting.merit for setting in found[:4]] == ["exponential:c=1"] * 2 + ["affine"] * 2
    assert [(s.dataset, s.n_arms, s.budget) for s in found[::4]] == [
        *[("cpap", 5, 1), ("cpap", 6, 2), ("synthetic", 5, 1), ("synthetic", 6, 2)]
    ]
    assert {(s.episodes, s.horizon, s.seed, s.carry_states) for s in found} == {(7, 200, 3, True)}


def test_one_text_or_one_size_stands_for_a_list() -> None:
    one: Any = {"datasets": "cpap", "sizes": [5, 1], "policies": ["random"]}
    assert Spec(**one, episodes=10) == Spec(**SMALL)


def test_numbers_are_of_one_type_whatever_was_given() -> None:
    setting = Setting(dataset="cpap", n_arms=np.int64(5), budget=1, policy="random", episodes=10, floor=0, cap=1)  # type: ignore[arg-type]
    assert type(setting.n_arms) is int
    assert type(setting.floor) is float
    assert setting == Spec(**SMALL).settings()[0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1, got 0"),
        ({"runs": True}, "runs must be a whole number, got True"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"authors": 1}, "authors must be true or false, got 1"),
        ({"datasets": ()}, r"datasets must be a non-empty list of texts, got \(\)"),
        (
            {"policies": ("random", 3)},
            "policies: policy must be a Policy, .*, got 3",
        ),
        ({"datasets": ({"name": "cpap"},)}, "datasets: must be text, got {'name': 'cpap'}"),
        ({"policies": ("random", "none", "random")}, "policies: 'random' is a duplicate"),
        ({"sizes": ((5, 1), (5, 6))}, "sizes: budget must be between 1 and the 5 arms, got 6"),
        ({"sizes": ((10**12, 1),)}, "sizes: 1 run of .* of 1,000,000,000,000 arms would take at least"),
        ({"sizes": ((10**23, 1),)}, "sizes: 1 run of .* would take at least"),
        ({"sizes": ("51",)}, r"sizes: a size is a pair of arms and budget, such as \[20, 4\], got '51'"),
        ({"design": "exact", "floor": 0.3}, "sizes: floors must add up to at most the budget of 1, got 1.5"),
        ({"sizes": ((5, (1, 6)),)}, "sizes: budget must be between 0 and the 5 arms in each round, got 6"),
        ({"sizes": ((5, (0, 0)),)}, r"sizes: budget must be above 0 in some round, got \(0, 0\)"),
        ({"rules": 3}, r"rules must be a table, such as {cooldown = 2}, got 3"),
        ({"rules": {"cooldwn": 3}}, "rules has no setting 'cooldwn', did you mean 'cooldown'"),
        ({"rules": mf.Rules(cooldown=5)}, "sizes: with a cooldown of 5, 6 different arms are pulled in 6 rounds"),
        ({"cap": 0.5}, "cap: floor and cap need the design 'exact' or 'systematic'"),
    ],
)
def test_what_cannot_be_played_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{message}"):
        Spec(**{**SMALL, **values})


def test_arms_of_your_own_are_named_by_their_contents_and_travel_along() -> None:
    arms = clinic()
    spec = Spec(**{**SMALL, "datasets": ("cpap", "clinic"), "sizes": ((6, 2),)}, own_arms={"clinic": arms})
    cpap, own = spec.settings()
    assert cpap.own_arms is None
    assert own.dataset == spec.datasets[1]
    assert own.dataset.partition("@")[0] == "clinic"
    assert len(own.dataset.partition("@")[2]) == 16
    there = pickle.loads(pickle.dumps(Task(own, 10, 10)))
    assert there.setting.arms(range(10, 13)) == (arms,) * 3
    assert there.key == Task(own, 10, 10).key
    assert "own_arms" not in own.settings()
    assert dataclasses.replace(spec, runs=3).settings() == spec.settings()
    other = Spec(**{**SMALL, "datasets": ("clinic",), "sizes": ((6, 2),)}, own_arms={"clinic": clinic(seed=2)})
    assert other.settings()[0] != own
    renamed = mf.Arms(arms.transitions)
    same = Spec(**{**SMALL, "datasets": ("clinic",), "sizes": ((6, 2),)}, own_arms={"clinic": renamed})
    assert same.settings()[0] == own  # names decide no numbers


def test_arms_of_your_own_must_fit() -> None:
    own = {"clinic": clinic()}
    with pytest.raises(SpecError, match=r"^sizes: clinic has 6 arms, got a size of 5"):
        Spec(**{**SMALL, "datasets": ("clinic",)}, own_arms=own)
    with pytest.raises(SpecError, match=r"^datasets: clinic cannot go together with authors = true"):
        Spec(**{**SMALL, "datasets": ("clinic",), "sizes": ((6, 2),)}, own_arms=own, authors=True)
    kept = Setting(dataset="clinic@0123456789abcdef", n_arms=6, budget=2, policy="random", episodes=1)
    with pytest.raises(mf.InputError, match="the arms of clinic@0123456789abcdef are not here, only their checksum"):
        kept.arms(range(1))


def even(view: View, weight: float = 1.0) -> Lottery:
    return Lottery(np.full(view.n_arms, weight))


@dataclass(frozen=True)
class Even(mf.Policy):
    name: ClassVar[str] = "even-class"
    weights: tuple[float, ...] = ()

    def plan(self, view: View) -> Lottery:
        return Lottery(np.ones(view.n_arms))


def test_functions_and_policies_become_text_and_travel_along() -> None:
    given: Any = [even, mf.policy(even, weight=2.0), mf.MeritFair(estimate="mean"), "random", Even()]
    spec = Spec(**SMALL | {"policies": given})
    home = __name__ if "." in __name__ else "test_spec.py"  # a module of a package is imported, a file alone is sent
    assert spec.policies == (
        f"{home}:even",
        f"{home}:even:weight=2",
        "merit-fair:estimate=mean",
        "random",
        f"{home}:Even",
    )
    one, other, *_, last = pickle.loads(pickle.dumps(spec.settings()))
    assert one.make_policy().settings() == {"weight": 1.0}
    assert other.make_policy().settings() == {"weight": 2.0}
    assert last.make_policy().name == "even-class"
    assert other.play(range(2)).pulls.sum() == 2 * 10 * 200
    assert dataclasses.replace(spec, runs=3).settings()[1].own_policy == other.own_policy
    assert "own_policy" not in one.settings()
    single: Any = even
    assert Spec(**SMALL | {"policies": single}).policies == spec.policies[:1]


def test_a_policy_that_is_no_text_is_refused() -> None:
    for policy, message in (
        (Even(weights=(1.0, 2.0)), "settings in a sweep must be such that they can be typed, got Even"),
        (lambda view: even(view), "workers cannot make the policy '<lambda>'"),
        (mf.Random, "policy must be a Policy"),
    ):
        with pytest.raises(SpecError, match=message) as raised:
            Spec(**SMALL | {"policies": ("random", policy)})
        assert (raised.value.key, raised.value.position) == ("policies", 1)


def test_trying_out_says_what_cannot_be_played_where() -> None:
    spec = Spec(**{**SMALL, "sizes": ((20, 4),), "policies": ("random", "fawt-q:window=3")})
    told: list[Any] = []
    with pytest.raises(
        SpecError, match="'fawt-q:window=3' cannot be played on cpap with 20 arms and a budget of 4: win"
    ):
        spec.try_out(spec.settings(), lambda *each: told.append(each))
    assert told == [("checking", 0, 2), ("checking", 1, 2)]


def test_rules_and_budgets_that_change_reach_every_setting_and_its_runs() -> None:
    sizes = ((5, 1), (5, (2, 1, 0)))
    one, several = Spec(**{**SMALL, "sizes": sizes, "horizon": 6, "rules": {"warmup": 1}}).settings()
    assert (one.budget, one.budgets, one.cycle) == (1, (), (1,))
    assert (several.budget, several.budgets, several.cycle) == (2, (2, 1, 0), (2, 1, 0))
    assert one.rules == several.rules == mf.Rules(warmup=1)
    run = several.play(range(2))
    assert (run.budgets, run.rules) == ((2, 1, 0), mf.Rules(warmup=1))
    assert (run.pulls.sum(axis=1) == 10 * 6 // 3 * 3 - 2).all()  # but for the first step
    for setting in (one, several):
        kept = json.loads(json.dumps(setting.settings()))
        assert Setting(**kept) == setting
        assert Task(Setting(**kept), 0, 10).key == Task(setting, 0, 10).key
    assert one != dataclasses.replace(one, rules=mf.Rules())


def test_a_setting_without_rules_says_nothing_of_them() -> None:
    plain = Spec(**SMALL).settings()[0]
    assert not {"rules", "budgets", "own_arms"} & set(plain.settings())
    assert dataclasses.replace(plain, rules=None) == plain  # type: ignore[arg-type]
    assert Spec(**{**SMALL, "sizes": ((5, (1,)),)}).settings()[0] == plain


@pytest.mark.parametrize("budgets", [(1, 0), (3, 2), (2,), (), None, 3, [], "2", (2, -1), (2, 9)])
def test_the_largest_of_several_budgets_is_the_budget(budgets: Any) -> None:
    same: Any = {"dataset": "cpap", "n_arms": 5, "policy": "random", "episodes": 1}
    if budgets == ():
        assert Setting(budget=2, budgets=budgets, **same).cycle == (2,)
        return
    with pytest.raises(SpecError, match=r"^budgets: "):
        Setting(budget=2, budgets=budgets, **same)


def test_instances_of_the_authors_need_one_budget() -> None:
    spec = Spec(**{**SMALL, "sizes": ((5, (2, 1)),)}, authors=True)
    with pytest.raises(SpecError, match=r"instances need one budget for all steps, got \[2, 1\]"):
        spec.try_out(spec.settings())


# --- from a file -------------------------------------------------------------


def test_a_file_says_the_same_as_python(write: Any) -> None:
    file = write(
        datasets='["cpap", {name = "cpap", variant = "probfair", noise = 0.20}]',
        sizes="[[10, 2],\n  [20, 4]]",
        policies='["merit-fair", "merit-fair: estimate=mean"]',
        merits='{name = "exponential", c = 3.0}',
        runs="5",
        horizon="50",
        seed="7",
        design='"exact"',
        floor="0.05",
        cap="1",
        ball='"kl"',
        delta="0.1",
        same_arms="true",
        carry_states="true",
        exposure_regret="true",
        rules="{cooldown = 3}",
        observed='"pulled"',
    )
    assert read_spec(file) == Spec(
        datasets=("cpap", "cpap:noise=0.2,variant=probfair"),
        sizes=((10, 2), (20, 4)),
        policies=("merit-fair", "merit-fair:estimate=mean"),
        merits=("exponential:c=3",),
        episodes=100,
        runs=5,
        horizon=50,
        seed=7,
        design="exact",
        floor=0.05,
        cap=1.0,
        ball="kl",
        delta=0.1,
        same_arms=True,
        carry_states=True,
        exposure_regret=True,
        rules=mf.Rules(cooldown=3),
        observed="pulled",
    )


@pytest.mark.parametrize("sizes", ["[20, [4, 4, 0]]", "[[20, [4, 4, 0]]]"])
def test_a_size_in_a_file_may_have_several_budgets(write: Any, sizes: str) -> None:
    assert SpecFile.read(write(sizes=sizes)).spec.sizes == ((20, (4, 4, 0)),)


@pytest.mark.parametrize("policy", ['"merit-fair:slack=inf"', '{name = "merit-fair", slack = inf}'])
def test_a_slack_may_be_infinite(write: Any, policy: str) -> None:
    (setting,) = SpecFile.read(write(policies=policy, design='"exact"')).spec.settings()
    assert setting.policy == "merit-fair:slack=inf"
    assert setting.make_policy() == mf.MeritFair(design="exact", slack=np.inf)


def test_the_seed_is_0_and_runs_are_30_unless_said(write: Any) -> None:
    spec = read_spec(write())
    assert (spec.seed, spec.runs, spec.merits) == (0, 30, ("exponential:c=3",))


def test_ways_to_write_the_same_are_the_same_tasks(write: Any) -> None:
    one = SpecFile.read(write(datasets='"cpap:variant=probfair,noise=0.2"', merits='"exponential:c=3.0"')).spec
    other = SpecFile.read(write(datasets='{name="cpap", noise=2e-1, variant="probfair"}', cap="1")).spec
    assert [task.key for task in tasks([one])] == [task.key for task in tasks([other])]


@pytest.mark.parametrize(
    "policies",
    [
        '"merit-fair:merit=affine:slope=1:intercept=1.5,delta=0.1"',
        '"merit-fair:delta=0.10,merit=affine:intercept=1.5:slope=1.0"',
        '{name = "merit-fair", merit = "affine:slope=1,intercept=1.5", delta = 0.1}',
        '{name = "merit-fair", delta = 0.1, merit = {name = "affine", slope = 1.0, intercept = 1.5}}',
    ],
)
def test_a_policys_merit_can_be_written(write: Any, policies: str) -> None:
    (setting,) = SpecFile.read(write(policies=policies)).spec.settings()
    assert setting.policy == "merit-fair:delta=0.1,merit=affine:intercept=1.5:slope=1"
    assert setting.make_policy() == mf.MeritFair(merit=mf.Affine(1.0, 1.5), delta=0.1)
    assert setting.criterion.merit == mf.Exponential(3.0)  # by which fairness is measured, for all policies alike


def test_a_file_of_arms_beside_the_spec(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    mf.datasets.write_arms(clinic(), tmp_path / "data" / "clinic.csv")
    mf.datasets.write_arms(clinic(), tmp_path / "again.parquet")
    file = write(datasets='["data/clinic.csv", "again.parquet"]', sizes="[6, 2]").absolute()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # files are looked for beside the spec
    settings = read_spec(file).settings()
    assert [setting.dataset.partition("@")[0] for setting in settings] == ["clinic.csv", "again.parquet"]
    assert len({setting.dataset.partition("@")[2] for setting in settings}) == 1
    assert settings[0].arms(range(1)) == (clinic(),)


WRONG = [
    ({"polices": '"none"'}, 6, "a spec has no setting 'polices', did you mean 'policies'?"),
    ({"x": "{a = 1}"}, 6, "a spec has no setting 'x'; its settings are datasets, sizes, policies, episodes,"),
    ({"own_arms": "{}"}, 6, "a spec has no setting 'own_arms'"),
    ({"episodes": None, "sizes": None}, None, "lacks sizes and episodes; a spec needs datasets, sizes, poli"),
    ({"episodes": ""}, 5, "is not TOML: Invalid value"),
    ({"datasets": '["cpap",\n"cpapp"]'}, 3, "datasets: there is no data set 'cpapp', did you mean 'cpap'?"),
    ({"datasets": '["cpap",\n  {name = "cpap", nois = 2}]'}, 3, "datasets: cpap has no setting 'nois', did you mean"),
    (
        {"datasets": '[\n# "cpap:noise=-1"\n{name = "cpap"},\n\n{name = "cpap", noise = -1},\n]'},
        6,
        "datasets: 'cpap:noise=-1' with 20 arms: noise must be at least 0, got -1",
    ),
    ({"datasets": '{name = "cpap", noise = "0.2"}'}, 2, "datasets: cpap: noise must be a plain text, or a number with"),
    ({"datasets": "{noise = 0.2}"}, 2, 'datasets: a table needs a plain name, as {name = "cpap", noise = 0.2} has'),
    ({"datasets": '{name = "cpap:noise=1"}'}, 2, "datasets: a table needs a plain name"),
    ({"datasets": '"clinic.csv"'}, 2, "datasets: clinic.csv: there is no such file"),
    ({"datasets": '"broken.csv"'}, 2, "datasets: broken.csv, line 1: lacks the columns p10, p11; it has arm, p00, p01"),
    ({"datasets": "[]"}, 2, "datasets must be a non-empty list of texts, got []"),
    ({"sizes": "[[20, 4],\n [ 5,7 ]]"}, 4, "sizes: budget must be between 1 and the 5 arms, got 7"),
    ({"sizes": "20"}, 3, "sizes must be a non-empty list of pairs of arms and budget, such as [[20, 4]], got"),
    ({"sizes": "[[true, 1]]"}, 3, "sizes: arms must be a whole number, got True"),
    ({"sizes": "[[20, 4], [20, 4.0]]"}, 3, "sizes: budget must be a whole number, got 4.0"),
    ({"policies": '["random",\n"merit-fare"]'}, 5, "policies: there is no policy 'merit-fare', did you mean 'merit"),
    ({"policies": "[1]"}, 4, "policies: must be text, or a table with a name, got 1"),
    ({"policies": '"random:c=1"'}, 4, "policies: random has no setting 'c'; it has none"),
    ({"policies": '["random",\n "none",\n "random"]'}, 6, "policies: 'random' is a duplicate"),
    (
        {"policies": '["random",\n {name = "fawt-q", window = 3}]'},
        5,
        "policies: 'fawt-q:window=3' cannot be played on cpap with 20 arms and a budget of 4: window must be at",
    ),
    ({"merits": '"exponental"'}, 6, "merits: merit must be one of exponential, affine, power, logistic, got 'expo"),
    ({"policies": '"merit-fair:merit=affin:slope=1"'}, 4, "policies: merit must be one of exponential, affine, power"),
    ({"policies": '"merit-fair:merit=affine:slop=1"'}, 4, "policies: affine merit has no setting 'slop', did you mean"),
    ({"policies": '"merit-fair:merit=3"'}, 4, "policies: must be text, or a table with a name, got 3"),
    ({"policies": "[" * 5000}, 4, "lists or tables are nested too deeply"),
    ({"policies": "{a = " * 5000}, 4, "lists or tables are nested too deeply"),
    ({"policies": "[\n" * 5000}, 4, "lists or tables are nested too deeply"),
    ({"runs": "true"}, 6, "runs must be a whole number, got True"),
    ({"runs": "1.0"}, 6, "runs must be a whole number, got 1.0"),
    ({"delta": "0"}, 6, "delta must lie strictly between 0 and 1, got 0"),
    ({"delta": '"0.1"'}, 6, "delta must be a number, got '0.1'"),
    ({"same_arms": "1"}, 6, "same_arms must be true or false, got 1"),
    ({"design": '"exat"'}, 6, "design must be one of sequential, exact, systematic, got 'exat', did you mean 'exact'?"),
    ({"rules": "{cooldwn = 1}"}, 6, "rules has no setting 'cooldwn', did you mean 'cooldown'?"),
    ({"rules": "{cooldown = -1}"}, 6, "rules: cooldown must be between 0 and 1000000000, got -1"),
    ({"rules": "2"}, 6, "rules must be a table, such as {cooldown = 2}, got 2"),
    ({"sizes": "[[20, 4],\n [20, [4, 30]]]"}, 4, "sizes: budget must be between 0 and the 20 arms in each round"),
    ({"rules": "{cooldown = 9}"}, 3, "sizes: with a cooldown of 9, 40 different arms are pulled in 10 rounds"),
    (
        {"policies": '["random",\n "merit-fair"]', "rules": "{cooldown = 1}"},
        5,
        "policies: 'merit-fair' cannot be played on cpap with 20 arms and a budget of 4: cooldown needs the design",
    ),
    (
        {"policies": '["equitable"]', "sizes": "[20, [4, 0]]"},
        4,
        "policies: 'equitable' cannot be played on cpap with 20 arms and a budget of 4,0: the policy plans quotas",
    ),
    ({"floor": "0.1"}, 6, "floor and cap need the design 'exact' or 'systematic'"),
    ({"episodes": "100\nepisodes = 10"}, 6, "is not TOML: Cannot overwrite a value"),
    ({"horizon": '"""\nruns = 3\n"""'}, 6, 'horizon must be a whole number, got'),
]  # fmt: skip


@pytest.mark.parametrize(("values", "line", "message"), WRONG)
def test_a_mistake_is_told_with_file_line_key_and_value(
    write: Any, values: dict[str, str | None], line: int | None, message: str
) -> None:
    Path("broken.csv").write_text("arm,p00,p01\nAda,0.1,0.2\n")
    with pytest.raises(mf.FileError) as stopped:
        read_spec(write(**values))
    assert str(stopped.value).startswith(f"sweep.toml{'' if line is None else f', line {line}'}: {message}")


ODD = [
    *("[]", "[[]]", "[[[1, 2]], 3]", "{}", "{a = 1}", "[{}]", "{name = []}", "{name = {name = 1}}", "[true]"),
    *("inf", "-inf", "nan", "[nan, nan]", "1e400", "-1", "1979-05-27", "[1979-05-27T07:32:00Z]", "07:32:00"),
    *('""', r'"\u0000"', '":"', '"random:="', '"cpap:noise=nan"', '"merit-fair:merit="', r'"\n"', '".csv"', '"@"'),
    *('{name = "none", x = [1, [2]]}', '{name = "merit-fair", merit = [["power"]]}', '{name = "cpap", noise = {}}'),
    *('["none", ["none"]]', "[[5, [1]]]", "[[[5, 1]]]", '["5", "1"]', "[5.0, 1.0]"),
]


@pytest.mark.parametrize("key", _KEYS)
def test_anything_in_a_spec_is_taken_or_refused_with_its_line(write: Any, key: str) -> None:
    problems = {}
    for value in ODD:
        file = write(**{"sizes": "[5, 1]", key: value})
        line = 1 + file.read_text().splitlines().index(f"{key} = {value}".splitlines()[0])
        try:
            SpecFile.read(file).spec.settings()
        except mf.FileError as error:
            problems[value] = str(error).removeprefix(f"sweep.toml, line {line}: ")
    assert len(problems) > 30
    assert not [problem for problem in problems.values() if problem.startswith("sweep.toml")]


def test_files_that_are_no_specs(tmp_path: Path) -> None:
    with pytest.raises(mf.FileError, match=r"spec.json: specs are kept in .toml files"):
        read_spec(tmp_path / "spec.json")
    with pytest.raises(mf.FileError, match=r"spec.toml: there is no such file"):
        read_spec(tmp_path / "spec.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(mf.FileError, match=r"folder.toml: is not a file"):
        read_spec(tmp_path / "folder.toml")
    (tmp_path / "latin.toml").write_bytes(b'datasets = "\xe9"')
    with pytest.raises(mf.FileError, match=r"latin.toml: is not text in UTF-8"):
        read_spec(tmp_path / "latin.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(mf.FileError, match=r"empty.toml: lacks datasets and sizes and policies and episodes"):
        read_spec(tmp_path / "empty.toml")


def test_files_of_policies_beside_the_spec(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import numpy as np\nfrom meritfair.policies import Lottery\n"
    source += "def even(view, weight=1.0):\n    return Lottery(np.full(view.n_arms, weight))\n"
    (tmp_path / "mine.py").write_text(source)
    path = write(policies='["random", "mine.py:even", {name = "mine.py:even", weight = 2}]').absolute()
    monkeypatch.chdir("/")
    spec = read_spec(path)
    assert spec.policies == ("random", "mine.py:even", "mine.py:even:weight=2")
    assert [each.own_policy and each.own_policy.text for each in spec.settings()] == [None, source, source]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text(source + "# another\n")
    monkeypatch.chdir(tmp_path)
    for text, message in (
        ('["mine.py:odd"]', "line 4: policies: mine.py: there is no policy 'odd': there are even"),
        ('["random", "nine.py:even"]', "line 4: policies: nine.py: there is no such file"),
        ('["mine.py:even", "other/mine.py:even:weight=2"]', "policies: there are two files of the name mine.py"),
        ('"mine.py:even:wight=2"', "line 4: policies: mine.py:even has no setting 'wight', did you mean 'weight'?"),
    ):
        with pytest.raises(mf.FileError) as raised:
            SpecFile.read(write(policies=text))
        assert message in str(raised.value)


def test_two_files_of_one_name_are_refused(write: Any) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        mf.datasets.write_arms(clinic(), f"{folder}/clinic.csv")
    with pytest.raises(mf.FileError, match=r"line 3: datasets: there are two files of the name clinic.csv: rename one"):
        read_spec(write(datasets='["a/clinic.csv",\n"b/clinic.csv"]', sizes="[6, 2]"))


def test_a_file_from_a_windows_editor(write: Any) -> None:
    file = write(policies='"merit-fare"')
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(mf.FileError, match=r"sweep.toml, line 4: policies: there is no policy"):
        read_spec(file)
