"""Does each failure of the catalogue go wrong, over fresh seeds, and stay well without its cause?

Every run is written down when it ends, one small JSON file each, so that a verification that was stopped goes on where
it stopped. A result counts only for what made it: the code that decides a run's bits, the failure's case, the arm.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from replay.errors import ReplayError
from replay.proxy.assessment import Result, assess, definition_hash, run_plan
from replay.proxy.failure import Arm, Failure
from replay.proxy.failures import CATALOGUE, get
from replay.proxy.pool import run_all
from replay.proxy.runtime import runtime_restored

SEEDS = 8
"""Fresh seeds of a verification, from each failure's ``first_seed`` on; the search used none of them."""


class IncompleteVerificationError(ReplayError):
    """The table of all failures cannot be written: not all of its runs are there."""


WITH, WITHOUT = "with the cause", "without"


def arms_of(failure: Failure) -> list[Arm]:
    """All runs of a failure: with the cause, without, and the cures and contrasts."""
    return [Arm(WITH), Arm(WITHOUT, of="control"), *failure.arms]


@runtime_restored()
def run_one(name: str, arm_name: str, seed: int, folder: str) -> Result:
    """One run of a failure, from its file if there is one of the same definition."""
    if (known := kept(name, arm_name, seed, folder)) is not None:
        return known
    failure = get(name)
    arm = _arm(failure, arm_name)
    definition = definition_hash(failure, arm)
    result = assess(failure, arm_name, seed, run_plan(arm.plan(failure.case(seed)), failure.held_out))
    path = _path(name, arm_name, seed, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"definition": definition, **dataclasses.asdict(result)}, indent=1))
    temporary.replace(path)
    return result


def kept(name: str, arm_name: str, seed: int, folder: str | Path) -> Result | None:
    """The result of a run from its file; None where there is none of this definition, or no whole one."""
    failure = get(name)
    try:
        values = json.loads(_path(name, arm_name, seed, folder).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.pop("definition", None) != definition_hash(
        failure, _arm(failure, arm_name)
    ):
        return None
    try:
        result = Result(**values)
    except TypeError:
        return None
    return result if (result.failure, result.arm, result.seed) == (name, arm_name, seed) else None


def _arm(failure: Failure, arm_name: str) -> Arm:
    return next(arm for arm in arms_of(failure) if arm.name == arm_name)


def _path(name: str, arm_name: str, seed: int, folder: str | Path) -> Path:
    slug = re.sub(r"[^a-z0-9.]+", "-", arm_name.lower()).strip("-")
    return Path(folder) / name / f"{slug}-{seed}.json"


Task = tuple[str, str, int]
"""A run: the failure's name, the arm's, the seed."""


def planned(names: Sequence[str] = (), seeds: int = SEEDS, *, with_arms: bool = True) -> list[Task]:
    """The runs of a verification, in the order of the catalogue, arms and seeds; of all failures without ``names``.

    Raises:
        UnknownFailureError: there is no failure of that name.
    """
    return [
        (failure.name, arm.name, seed)
        for failure in ([get(name) for name in names] or CATALOGUE.values())
        for arm in arms_of(failure)[: None if with_arms else 2]
        for seed in range(failure.first_seed, failure.first_seed + seeds)
    ]


def whole_table(folder: str | Path, about_to_run: Sequence[Task] = ()) -> list[Result]:
    """All results of the whole verification; those ``about_to_run`` are left out where they are not there yet.

    Raises:
        IncompleteVerificationError: some are neither there nor about to be: no table is made of a part.
    """
    coming = set(about_to_run)
    found = {task: kept(*task, folder) for task in planned(seeds=SEEDS)}
    missing = [task for task, result in found.items() if result is None and task not in coming]
    if missing:
        name, arm, seed = missing[0]
        raise IncompleteVerificationError(
            f"the page tells of all {len(found)} runs of the verification, and {len(missing)} of them are not in "
            f"{folder} (the first: {name}, {arm}, seed {seed}); run them first, with: replay proxy failures verify "
            f"--folder {folder}"
        )
    return [result for result in found.values() if result is not None]


def verify(
    names: Sequence[str] = (),
    seeds: int = SEEDS,
    *,
    folder: str | Path,
    with_arms: bool = True,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Run failures over seeds; results in the order of the catalogue, arms and seeds. See :func:`run_one`.

    Raises:
        UnknownFailureError: there is no failure of that name.
    """
    tasks = [(*task, str(folder)) for task in planned(names, seeds, with_arms=with_arms)]
    results = []
    for result in run_all(run_one, tasks, jobs):
        results.append(result)
        if progress is not None:
            progress(len(results), len(tasks))
    return results
