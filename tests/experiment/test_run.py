"""An experiment gives the same bytes, however its work is done and however often it was stopped."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.experiment import ExperimentResult, Scenario, ScenarioError, run, run_experiment
from replay.experiment.arms import ArmRun, run_arms
from replay.proxy.failure import Case

from .toy import ToyFailure, scenario, toy_case

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def result() -> ExperimentResult:
    return run_experiment(scenario(), SEEDS)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The (seed, arm) pairs that are really run."""
    done: list[tuple[int, str]] = []

    def counting(chosen: Scenario, case: Case, names: Sequence[str]) -> Iterator[ArmRun]:
        for one in run_arms(chosen, case, names):
            done.append((case.config.seed, one.arm))
            yield one

    monkeypatch.setattr(run, "run_arms", counting)
    return done


def test_running_it_twice_gives_the_same_bytes(result: ExperimentResult) -> None:
    assert run_experiment(scenario(), SEEDS).to_bytes() == result.to_bytes()


def test_two_processes_give_the_same_bytes(result: ExperimentResult) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert run_experiment(scenario(), SEEDS, executor=executor).to_bytes() == result.to_bytes()


class Backwards(ThreadPoolExecutor):
    """Finishes what it was given last first, and one at a time."""

    def __init__(self) -> None:
        super().__init__(1)
        self.held: list[tuple[Future[Any], Any, Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ARG002
        future: Future[Any] = Future()
        self.held.append((future, fn, args))
        if len(self.held) == len(SEEDS):
            for held, task, given in reversed(self.held):
                held.set_result(task(*given))
        return future


def test_the_order_in_which_seeds_finish_does_not_matter(result: ExperimentResult) -> None:
    assert run_experiment(scenario(), SEEDS, executor=Backwards()).to_bytes() == result.to_bytes()


def test_a_seed_is_the_same_alone_and_among_others(result: ExperimentResult) -> None:
    alone = run_experiment(scenario(), [2])
    among = result.arms[result.arms["seed"] == 2].reset_index(drop=True)
    assert alone.arms.equals(among)


def test_an_interrupted_experiment_goes_on_where_it_stood(
    result: ExperimentResult, counted: list[tuple[int, str]], tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(scenario(), SEEDS, folder=tmp_path, progress=stop)
    before = list(counted)
    assert {seed for seed, _ in before} == {0, 1}
    counted.clear()
    resumed = run_experiment(scenario(), SEEDS, folder=tmp_path)
    assert {seed for seed, _ in counted} == {2}
    assert resumed.to_bytes() == result.to_bytes()
    counted.clear()
    assert run_experiment(scenario(), SEEDS, folder=tmp_path).to_bytes() == result.to_bytes()
    assert counted == []


def test_stopped_within_a_seed_only_its_missing_arms_are_run(
    result: ExperimentResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def dying(chosen: Scenario, case: Case, names: Sequence[str]) -> Iterator[ArmRun]:
        for one in run_arms(chosen, case, names):
            if one.arm == "grad_clip_change":
                raise KeyboardInterrupt
            yield one

    with monkeypatch.context() as patched:
        patched.setattr(run, "run_arms", dying)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(scenario(), [0], folder=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 3
    again = run_experiment(scenario(), [0], folder=tmp_path)
    assert again.arms.equals(result.arms[result.arms["seed"] == 0].reset_index(drop=True))


@pytest.mark.parametrize("damage", [b"", b"{", b'{"run": 1}', b"[]", b"\xff\xfe"])
def test_a_damaged_file_is_as_good_as_none(damage: bytes, tmp_path: Path) -> None:
    whole = run_experiment(scenario(), [0], folder=tmp_path)
    for file in tmp_path.glob("*.json"):
        file.write_bytes(damage)
    assert run_experiment(scenario(), [0], folder=tmp_path).to_bytes() == whole.to_bytes()


def test_a_number_changed_in_a_file_is_noticed(tmp_path: Path) -> None:
    whole = run_experiment(scenario(), [0], folder=tmp_path)
    for file in tmp_path.glob("*.json"):
        file.write_text(file.read_text().replace('"steps_recomputed": 13', '"steps_recomputed": 12'))
    assert run_experiment(scenario(), [0], folder=tmp_path).to_bytes() == whole.to_bytes()


def test_what_was_kept_for_another_setting_is_not_taken(counted: list[tuple[int, str]], tmp_path: Path) -> None:
    run_experiment(scenario(), [0], folder=tmp_path)
    counted.clear()
    run_experiment(scenario(horizon=9), [0], folder=tmp_path)
    assert len(counted) == 6
    counted.clear()
    run_experiment(scenario(failure=ToyFailure(case=other_case)), [0], folder=tmp_path)
    assert len(counted) == 6


def other_case(seed: int) -> Case:
    case = toy_case(seed)
    return dataclasses.replace(case, config=case.config.replace(optimizer__beta2=0.95))


def test_an_arm_that_is_added_does_not_make_the_others_run_again(
    counted: list[tuple[int, str]], tmp_path: Path
) -> None:
    all_arms = scenario().arms
    run_experiment(scenario(arms=all_arms[:1]), [0], folder=tmp_path)
    counted.clear()
    run_experiment(scenario(), [0], folder=tmp_path)
    assert counted == [(0, "grad_clip_change"), (0, "perturbed")]


def test_a_folder_that_cannot_be_written_costs_time_only(result: ExperimentResult, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run_experiment(scenario(), SEEDS, folder=blocked).to_bytes() == result.to_bytes()


def test_that_rolling_back_repeats_the_run_is_asserted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose bits differ from one time to the next makes the experiment stop, not lie."""

    def unstable(chosen: Scenario, case: Case, names: Sequence[str]) -> Iterator[ArmRun]:
        for one in run_arms(chosen, case, names):
            if one.arm == "rollback_only":
                one = dataclasses.replace(one, values=np.nextafter(one.values, np.inf))
            yield one

    monkeypatch.setattr(run, "run_arms", unstable)
    with pytest.raises(ScenarioError, match="rolling back alone did not repeat the run bit for bit"):
        run_experiment(scenario(), [0])


def test_it_is_asserted_once_an_experiment(counted: list[tuple[int, str]]) -> None:
    assert run_experiment(scenario(), [5, 3]).repeated_on == 5
    assert [pair for pair in counted if pair[1] == "rollback_only"] == [(5, "rollback_only")]


def test_frames_have_their_columns_and_every_seed_arm_and_step(result: ExperimentResult) -> None:
    assert list(result.arms.columns) == [
        "scenario", "seed", "arm", "step", "held_out_loss", "excess_loss", "loss", "grad_norm", "learning_rate"
    ]  # fmt: skip
    sizes = result.arms.groupby(["seed", "arm"]).size()
    assert len(sizes) == 3 * 5
    assert set(sizes) == {21}
    assert (result.arms.loc[result.arms["arm"] == "never_met", "excess_loss"] == 0).all()
    assert len(result.outcomes) == 3 * 4 * 6
    assert len(result.effects) == 5 * 6


def test_the_store_keeps_the_effects(result: ExperimentResult, tmp_path: Path) -> None:
    import replay

    store = replay.open(tmp_path / "store")
    store.put_effects(result.scenario.name, result.effects)
    kept = store.effects()
    assert len(kept) == len(result.effects)
    assert set(kept["verdict"]) == set(result.effects["verdict"])


def test_the_summary_says_plainly_what_three_seeds_are_worth(result: ExperimentResult) -> None:
    text = result.summary()
    assert "3 seeds prove nothing" in text
    assert "25% of cases" in text
    assert "Rolling back and changing nothing repeated “do nothing” bit for bit (asserted on seed 0)" in text
    assert "Steps recomputed and batches skipped are costs of the arm itself" in " ".join(text.split())
    assert "A proxy shows mechanism, not magnitude." in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 140
    assert run_experiment(scenario(), [0]).summary().count("1 seed proves nothing") == 1


def test_what_cannot_be_run_is_told() -> None:
    with pytest.raises(ScenarioError, match="at least one seed"):
        run_experiment(scenario(), [])
    with pytest.raises(ScenarioError, match="must not be negative"):
        run_experiment(scenario(), [-1])
    with pytest.raises(ScenarioError, match="seed 4 cannot be prepared: no luck"):
        run_experiment(scenario(failure=ToyFailure(case=unlucky)), [4])


def unlucky(seed: int) -> Case:
    raise RuntimeError("no luck")


def test_progress_counts_seeds() -> None:
    seen: list[tuple[int, int]] = []
    run_experiment(scenario(), [0, 1], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_the_callers_threads_and_denormals_are_left_as_they_were() -> None:
    import torch

    torch.set_num_threads(2)
    run_experiment(scenario(), [0])
    assert torch.get_num_threads() == 2
    assert float(torch.tensor(1e-40) * 1.0) > 0
