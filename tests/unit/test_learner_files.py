"""The file of a learner: whole or not at all, never in place of a newer one, and never trusted."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import multiprocessing
import os
import platform
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.policies import Lottery, Policy, View, create
from meritfair.policies.learner import Learner
from meritfair.policies.own import as_policy

DATA = Path(__file__).parents[1] / "data"


def play(learner: Learner, rounds: int) -> None:
    """Let a learner choose and see everything."""
    for states, next_states in np.random.default_rng(9).integers(0, 2, (rounds, 2, learner.n_arms)):
        choice = learner.choose(states)
        learner.observe(states, choice.actions, next_states, round=choice.round)


def sealed(values: dict[str, Any]) -> str:
    """Return the text of a file with a right checksum, whatever is in it."""
    content = {key: value for key, value in values.items() if key not in ("format", "digest")}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({**values, "digest": digest})


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    learner = mf.MeritFair().start(3, 1, seed=1)
    play(learner, 3)
    learner.save(tmp_path / "learner.json")
    return tmp_path / "learner.json"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"round": 3', '"round": 4'),
        lambda text: text.replace('"seed": 1', '"seed": 2'),
        lambda text: text.replace('"budget": 1, ', ""),
        lambda text: text.replace('"digest": "', '"digest": "0'),
        lambda text: "[1, 2]",
        lambda text: "{}",
        lambda text: "null",
        lambda text: "\udcff\udcfe",  # bytes that are not text
    ],
)
def test_a_damaged_file_is_never_taken_for_a_whole_one(damage: Callable[[str], str], saved: Path) -> None:
    text = saved.read_text()
    assert damage(text) != text
    saved.write_bytes(damage(text).encode("utf-8", "surrogateescape"))
    with pytest.raises(mf.FileError, match=r"learner\.json: does not hold a whole learner saved by meritfair \("):
        Learner.load(saved)


def test_a_file_of_another_format_is_told(saved: Path) -> None:
    saved.write_text(saved.read_text().replace("meritfair-learner-5", "meritfair-learner-9"))
    with pytest.raises(mf.FileError, match="its format is meritfair-learner-9, not meritfair-learner-5"):
        Learner.load(saved)


def test_files_that_cannot_be(saved: Path) -> None:
    learner = Learner.load(saved)
    with pytest.raises(mf.FileError, match=r"no\.json: there is no such file"):
        Learner.load(saved.with_name("no.json"))
    with pytest.raises(mf.FileError, match="there is no such file"):
        Learner.load(saved.parent / "a.json" / "b.json")
    for keep in (Learner.load, learner.save):
        with pytest.raises(mf.FileError, match=r"learner\.txt: learners are kept in \.json files"):
            keep(saved.with_suffix(".txt"))
    with pytest.raises(mf.FileError, match=r"b\.json: cannot be written"):
        learner.save(saved.parent / "a" / "b.json")
    (saved.parent / "folder.json").mkdir()
    with pytest.raises(mf.FileError, match=r"folder\.json: cannot be written: it is not a regular file"):
        learner.save(saved.parent / "folder.json")


def test_a_file_is_replaced_whole_or_not_at_all(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, before = Learner.load(saved), saved.read_bytes()
    play(learner, 2)

    def full(self: Path, *args: Any, **kwargs: Any) -> int:
        self.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(mf.FileError, match="cannot be written: No space left on device"):
            learner.save(saved)
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == ["learner.json"]
    learner.save(saved)
    assert Learner.load(saved).round == 5
    assert [file.name for file in saved.parent.iterdir()] == ["learner.json"]


def test_a_setting_that_no_file_can_hold_leaves_the_old_file(saved: Path) -> None:
    def planning(view: View, scale: Any = np.tanh) -> Lottery:
        return Lottery(np.ones(view.n_arms))

    before = saved.read_bytes()
    with pytest.raises(mf.InputError, match="the settings of the policy planning must be plain values"):
        as_policy(planning).start(3, 1, seed=1).save(saved, overwrite=True)
    assert saved.read_bytes() == before


# ---- who may replace what


def test_of_two_that_load_and_save_the_second_is_refused(saved: Path) -> None:
    one, two = Learner.load(saved), Learner.load(saved)
    play(one, 1)
    one.save(saved)
    one.save(saved)
    play(two, 2)
    before = saved.read_bytes()
    with pytest.raises(
        mf.FileError, match=r"learner\.json: holds generation 2 of this learner.* load it and observe again"
    ):
        two.save(saved)
    assert saved.read_bytes() == before
    two.save(saved.with_name("two.json"))  # elsewhere it may go on, and still not come back
    for _ in range(2):
        play(two, 1)
        two.save(saved.with_name("two.json"))
    with pytest.raises(mf.FileError, match=r"holds generation 2 of this learner.* load it and observe again"):
        two.save(saved)
    again = Learner.load(saved)
    play(again, 1)
    again.save(saved)
    two.save(saved, overwrite=True)
    assert Learner.load(saved).round == two.round
    with pytest.raises(mf.FileError, match="holds generation 4 of this learner"):
        again.save(saved)


def test_an_older_copy_is_replaced(saved: Path) -> None:
    backup = saved.with_name("backup.json")
    for _ in range(3):
        learner = Learner.load(saved)
        for _ in range(2):
            play(learner, 1)
            learner.save(saved)
            learner.save(backup)
    assert backup.read_bytes() == saved.read_bytes()
    learner.observe([0, 0, 0], [0, 0, 0], [1, 1, 1])
    learner.save(backup)
    with pytest.raises(mf.FileError, match=r"backup\.json: holds generation 8 of this learner"):
        Learner.load(saved).save(backup)
    Learner.load(backup).save(saved)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda learner: Learner.from_dict(learner.to_dict())])
def test_copies_of_a_learner_are_told_apart(twin: Callable[[Learner], Learner], saved: Path) -> None:
    learner = Learner.load(saved)
    learner.choose()
    learner.save(saved)
    other = twin(learner)
    for each in (learner, other):
        each.choose()
    learner.save(saved)
    other.save(saved.with_name("other.json"))
    with pytest.raises(mf.FileError, match="holds generation 3 of this learner"):
        other.save(saved)
    learner.save(saved)


@pytest.mark.parametrize("content", ["{}", "not a learner", '{"format": "meritfair-learner-5"}'])
def test_what_is_something_else_is_not_replaced_unless_asked_for(content: str, saved: Path) -> None:
    learner, file = mf.MeritFair().start(3, 1, seed=1), saved.with_name("notes.json")
    file.write_text(content)
    with pytest.raises(mf.FileError, match=r"notes\.json: holds something else.* overwrite=True"):
        learner.save(file)
    assert file.read_text() == content
    with pytest.raises(mf.FileError, match=r"learner\.json: holds another learner.* overwrite=True"):
        learner.save(saved)
    learner.save(file, overwrite=True)
    learner.save(saved, overwrite=True)
    learner.save(saved)
    assert Learner.load(file).round == Learner.load(saved).round == 0


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes and links")
def test_an_empty_file_may_be_made_beforehand(tmp_path: Path) -> None:
    file = tmp_path / "learner.json"
    file.touch(0o640)
    file.chmod(0o640)
    mf.MeritFair().start(3, 1, seed=1).save(file)
    assert mode(file) == 0o640


def _add_one(path: str, tries: int) -> None:
    for _ in range(tries):
        while True:
            learner = Learner.load(path)
            learner.observe([0, 0, 0], [0, 0, 0], [1, None, None])
            try:
                learner.save(path)
                break
            except mf.FileError:
                pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs locks between processes")
def test_processes_that_save_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "learner.json"
    create("random").start(3, 1, seed=1).save(file)
    workers = [multiprocessing.get_context("fork").Process(target=_add_one, args=(str(file), 15)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Learner.load(file).counts.visits.sum() == 45
    assert [each.name for each in tmp_path.iterdir()] == ["learner.json"]


# ---- modes and links


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes and links")
def test_a_new_file_is_private_and_an_old_one_keeps_its_mode(saved: Path) -> None:
    assert mode(saved) == 0o600
    saved.chmod(0o640)
    learner = Learner.load(saved)
    learner.save(saved)
    assert mode(saved) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes and links")
def test_a_symbolic_link_stays_one(saved: Path) -> None:
    folder = saved.parent / "shared"
    folder.mkdir()
    target, link = folder / "kept.json", saved.with_name("link.json")
    saved.rename(target)
    link.symlink_to(target)
    learner = Learner.load(link)
    play(learner, 1)
    learner.save(link)
    assert link.is_symlink()
    assert Learner.load(target).round == 4
    other = Learner.load(target)
    for each in (other, learner):
        play(each, 1)
    other.save(link)
    with pytest.raises(mf.FileError, match=r"link\.json: holds generation 3 of this learner"):
        learner.save(link)


def test_a_file_that_may_not_be_read_is_told(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(mf.FileError, match=r"learner\.json: cannot be read: Permission denied"):
        Learner.load(saved)


# ---- versions and settings


def test_a_file_says_what_it_was_saved_by(saved: Path) -> None:
    found = json.loads(saved.read_text())["versions"]
    assert found == {"meritfair": mf.__version__, "numpy": np.__version__, "python": platform.python_version()}
    values = json.loads(saved.read_text())
    values["policy"]["flavour"], values["versions"]["meritfair"] = 3, "7.0"
    saved.write_text(sealed(values))
    with pytest.raises(mf.FileError, match=r"no setting 'flavour'.*saved by meritfair 7\.0"):
        Learner.load(saved)


def test_other_settings_are_refused_unless_they_are_meant(saved: Path) -> None:
    Learner.load(saved, mf.MeritFair())
    other = mf.MeritFair(merit=mf.Exponential(1.0), delta=0.02)
    with pytest.raises(
        mf.FileError, match=r'merit .*"c": 1\.0.* not .*"c": 3\.0.*; delta 0\.02, not 0\.01\. Give new_set'
    ):
        Learner.load(saved, other)
    learner = Learner.load(saved, other, new_settings=True)
    assert learner.policy == other
    learner.save(saved)
    assert Learner.load(saved).policy == other
    with pytest.raises(mf.FileError, match="has the policy 'merit-fair', not 'random'"):
        Learner.load(saved, create("random"), new_settings=True)


def test_a_setting_that_was_not_there_is_told(saved: Path) -> None:
    def planning(view: View, scale: float = 1.0) -> Lottery:
        return Lottery(np.ones(view.n_arms))

    policy, file = as_policy(planning), saved.with_name("own.json")
    policy.start(3, 1, seed=1).save(file)
    values = json.loads(file.read_text())
    del values["policy"]["scale"]
    file.write_text(sealed(values))
    with pytest.raises(mf.FileError, match=r"scale 1\.0, not null"):
        Learner.load(file, policy)


# ---- files of earlier formats

OLD = {  # what the version that has written a file drew next: names and exposures
    1: [
        ("Ada", "Dee", [0.5, 0.2222222222222222, 0.7777777777777778, 0.5]),
        ("Ada", "Dee", [0.8, 0.2, 0.8, 0.2]),
        ("Ada", "Dee", [0.8181818181818181, 0.18181818181818182, 0.8181818181818181, 0.18181818181818182]),
    ],
    2: [
        ("Dee", "Eve", [0.16666666666666666, 0.16666666666666666, 0.8333333333333334, 0.8333333333333334]),
        ("Dee", "Eve", [0.15384615384615385, 0.15384615384615385, 0.8461538461538461, 0.8461538461538461]),
        ("Dee", "Eve", [0.14285714285714285, 0.14285714285714285, 0.8571428571428572, 0.8571428571428572]),
    ],
    4: [
        ("Cy", "Dee", [0.5421024130681549, 0.4690494115498055, 0.8465757693257663, 0.14227240605627312]),
        ("Cy", "Eve", [0.48296095450582266, 0.4948215618327426, 0.0728581481096937, 0.949359335551741]),
        ("Ada", "Cy", [0.5325560232646276, 0.7503448779912752, 0.608216983012785, 0.10888211573131212]),
    ],
    3: [
        ("Cy", "Eve", [0.4268962604162346, 0.5349591476865049, 0.32626792893479034, 0.7118766629624701]),
        ("Cy", "Eve", [0.4268962604162346, 0.5349591476865049, 0.32626792893479034, 0.7118766629624701]),
        ("Cy", "Eve", [0.36116908314688784, 0.6824640552771354, 0.45205802519150695, 0.5043088363844699]),
    ],
}


@pytest.mark.parametrize("written", OLD)
def test_a_file_of_an_earlier_format_resumes_as_it_would_have(written: int, tmp_path: Path) -> None:
    file = tmp_path / "learner.json"
    file.write_bytes((DATA / f"learner-{written}.json").read_bytes())
    learner, other = Learner.load(file), Learner.load(file)
    first, generation, departed = {1: (5, 2, ()), 2: (8, 3, ("Bo",)), 3: (8, 4, ("Bo",)), 4: (8, 2, ("Bo",))}[written]
    assert (learner.names, learner.round, learner.departed) == (("Ada", "Cy", "Dee", "Eve"), first, departed)
    for *names, exposure in OLD[written]:
        choice = learner.choose([0, 1, 0, 1])
        assert list(choice.names) == names
        assert choice.exposure.tolist() == pytest.approx(exposure, abs=1e-12)  # last bits differ between processors
        learner.observe([0, 1, 0, 1], choice.actions, [1, 1, 0, 0], round=choice.round)
    learner.save(file)
    assert json.loads(file.read_text())["format"] == "meritfair-learner-5"
    assert Learner.load(file).round == first + 3
    other.choose([0, 1, 0, 1])
    with pytest.raises(mf.FileError, match=f"holds generation {generation} of this learner"):
        other.save(file)


def test_a_file_of_the_third_format_has_neither_accounts_nor_rules() -> None:
    policy = mf.MeritFair(estimate="mean", design="exact", floor=0.05)
    learner = Learner.load(DATA / "learner-3.json", policy)  # its settings are the same: a slack of 0
    assert learner.account.tolist() == [0, 0, 0, 0]
    assert not learner.rules
    learner.join("Bo")
    assert learner.choose().account.tolist() == [0, 0, 0, 0, 0]
    again = Learner.load(DATA / "learner-3.json", dataclasses.replace(policy, slack=2.0), new_settings=True)
    assert np.abs(again.choose([0, 1, 0, 1]).account).max() > 0.01


def test_who_left_in_an_earlier_format_returns() -> None:
    learner = Learner.load(DATA / "learner-2.json")
    learner.join("Bo")
    assert learner.counts.visits[-1].tolist() == [[0, 1], [0, 1]]
    with pytest.raises(mf.InputError, match="'Bo' in round 2 was observed already"):
        learner.observe({"Bo": 0}, {"Bo": 0}, {"Bo": 0}, round=2)


# ---- files with a right checksum and wrong contents


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where everything in a file is: of a list, the first entry."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


def changed(values: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    made = inside = copy.deepcopy(values)
    for key in path[:-1]:
        inside = inside[key]
    change(inside, path[-1])
    return made


def _put(value: Any) -> Callable[[Any, Any], None]:
    return lambda inside, key: inside.__setitem__(key, value)


def _delete(inside: Any, key: Any) -> None:
    del inside[key]


def _double(inside: Any, key: Any) -> None:
    if isinstance(inside[key], (list, str, int, float)):
        inside[key] = 2 * inside[key]


WRONG: list[Any] = [None, -1, 2.5, 10**30, "x", [], {"a": 1}]
CHANGES = [_delete, _double, *map(_put, WRONG)]


def kept(policy: Policy, tmp_path: Path) -> dict[str, Any]:
    """Return what a file holds of a learner that has been through everything."""
    learner = policy.start(4, 2, seed=1, horizon=3, names=["Ada", "Bo", "Cy", "Dee"])
    play(learner, 2)
    learner.leave("Bo")
    play(learner, 3)
    learner.save(tmp_path / "learner.json")
    values: dict[str, Any] = json.loads((tmp_path / "learner.json").read_text())
    assert values["planned_from"] is not None
    return values


def check_never_trusted(values: dict[str, Any], paths: list[tuple[Any, ...]], file: Path) -> int:
    """Check that each change of a file is refused by a `FileError`, or gives a learner that works."""
    refused = 0
    for path in paths:
        for change in CHANGES:
            file.write_text(sealed(changed(values, path, change)))
            try:
                learner = Learner.load(file)
            except mf.FileError:
                refused += 1
                continue
            with contextlib.suppress(mf.InputError):  # what a step learner remembers is for it to judge
                choice = learner.choose([0] * learner.n_arms)
                learner.observe([0] * learner.n_arms, choice.actions, [1] * learner.n_arms)
                learner.join(learner.departed or "Zoë")
                learner.choose([1] * learner.n_arms)
            learner.save(file, overwrite=True)
    return refused


@pytest.mark.slow
def test_no_content_of_a_file_is_trusted(tmp_path: Path) -> None:
    values = kept(mf.MeritFair(design="exact"), tmp_path)
    paths = list(places(values))
    assert check_never_trusted(values, paths, tmp_path / "learner.json") > 0.6 * len(paths) * len(CHANGES)


@pytest.mark.parametrize("written", [1, 2, 3, 4])
def test_what_a_step_learner_is_to_remember_is_not_trusted(written: int, tmp_path: Path) -> None:
    old = DATA / f"learner-{written}.json"
    values = json.loads(old.read_text()) if old.exists() else kept(create("wiql"), tmp_path)
    paths = [path for path in places(values) if len(path) == 1 or "memory" in path]
    check_never_trusted(values, paths, tmp_path / "learner.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("names",), ["Ada", "Ada", "Dee"], "arms 0 and 1 have the same name, 'Ada'"),
        (("names",), ["Ada", "Bo", "Dee"], "arms 1 and 3 have the same name, 'Bo'"),  # and has left
        (("names",), [], r"shape \(0, 2, 2\), got \(3, 2, 2\)"),
        (("horizon",), 0, "horizon must be at least 1, got 0"),
        (("budget",), 9, "budget must be between 1 and the 4 arms, got 9"),
        (("round",), -1, "round must be between 0 and 9007199254740992, got -1"),
        (("round",), 4, "the last round reported must be between 0 and 4, got 5"),
        (("seed",), None, "seed must be a whole number, got None"),
        (("numbered",), 2, "numbered must be at least 3, got 2"),
        (("rng", "bit_generator"), "MT19937", "rng must be the state of a PCG64 generator"),
        (("rng", "state", "state"), -1, "rng must be the state of a PCG64 generator"),
        (("arms", "visits", 0, 0, 0), -1, "visits must be between 0 and 9007199254740992, got -1"),
        (("arms", "visits", 0, 0, 0), "x", "visits must be an array of numbers"),
        (("arms", "track"), ["!!"], "track must hold a text for each of the 3 arms"),
        (("arms", "track"), ["!!", "!", "!"], "track must hold texts of one length"),
        (("arms", "track"), ["\x7f", "!", "!"], "track must hold characters from '!' to 'q'"),
        (("forget",), 0, "forget must be above 0 and at most 1"),
        (("before",), -1, "before must be between 0 and"),
        (("arms", "good", 0, 0, 0), 99, "good must be at most visits, got 99"),
        (("arms", "pulled", 0), 2, "pulled must be between 0 and 1, got 2"),
        (("arms", "turn", 0), "nan", "turn must be between 0 and .* got nan"),
        (("arms", "account"), [0.0, "nan", 0.0], "account must be between .* got nan"),
        (("arms", "joined"), [0, 0, -2], "joined must be between -1 and .* got -2"),
        (("budget",), [0, 0], "budget must be above 0 in some round"),
        (("budget",), [1, 9], "budget must be between 0 and the 4 arms in each round, got 9"),
        (("rules",), {"cooldown": -1}, "cooldown must be between 0 and 1000000000, got -1"),
        (("rules",), {"cool": 1}, "rules has no setting 'cool', did you mean 'cooldown'"),
        (("rules",), [], r"rules must be a Mapping, got \[\]"),
        (("arms", "truth"), 3 * [[[0.5, 0.5], [0.5, 1.5]]], r"truth must be between 0 and 1, got 1\.5"),
        (("arms", "memory"), [[1.0], [1.0], [1.0]], "memory must have 9 numbers for each arm by this policy, got 1"),
        (("arms", "memory"), [[1.0]], r"memory must have the shape \(3, any\), got \(1, 1\)"),
        (("departed", "Bo", "visits"), [], "visits must have the shape"),
        (("departed",), ["Bo"], r"departed must be a mapping by name, got \['Bo'\]"),
        (("planned_from", "round"), 9, "round of the plan must be between 0 and 5, got 9"),
        (("planned_from", "states", 0), 3, "states must be between -1 and 1, got 3"),
        (("policy", "discount"), 2, "discount must lie between 0 and 1, got 2"),
        (("policy", "name"), None, "there is no policy None"),
        (("policy",), [], "name is missing"),
        (("saves",), [["a", 0]], "number of saves must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(path: tuple[Any, ...], value: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "learner.json"
    file.write_text(sealed(changed(kept(create("wiql"), tmp_path), path, _put(value))))
    with pytest.raises(mf.FileError, match=rf"learner\.json: .*{message}"):
        Learner.load(file)
