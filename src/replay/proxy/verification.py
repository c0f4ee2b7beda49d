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

from replay.proxy.assessment import Result, assess, definition_hash, run_plan
from replay.proxy.failure import Arm, Failure
from replay.proxy.failures import CATALOGUE, get
from replay.proxy.pool import run_all
from replay.proxy.runtime import runtime_restored

SEEDS = 8
"""Fresh seeds of a verification, from each failure's ``first_seed`` on; the search used none of them."""

WITH, WITHOUT = "with the cause", "without"


def arms_of(failure: Failure) -> list[Arm]:
    """All runs of a failure: with the cause, without, and the cures and contrasts."""
    return [Arm(WITH), Arm(WITHOUT, of="control"), *failure.arms]


@runtime_restored()
def run_one(name: str, arm_name: str, seed: int, folder: str) -> Result:
    """One run of a failure, from its file if there is one of the same definition."""
    failure = get(name)
    path = Path(folder) / name / f"{_slug(arm_name)}-{seed}.json"
    arm = next(arm for arm in arms_of(failure) if arm.name == arm_name)
    definition = definition_hash(failure, arm)
    if (known := _load(path, definition)) is not None:
        return known
    result = assess(failure, arm_name, seed, run_plan(arm.plan(failure.case(seed)), failure.held_out))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"definition": definition, **dataclasses.asdict(result)}, indent=1, sort_keys=True))
    temporary.replace(path)
    return result


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def _load(path: Path, definition: str) -> Result | None:
    """A result of this definition; None where there is none (a half-written one never bears the final name)."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if values.pop("definition", None) != definition:
        return None
    return Result(**values)


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
    tasks = [
        (failure.name, arm.name, seed, str(folder))
        for failure in ([get(name) for name in names] or CATALOGUE.values())
        for arm in arms_of(failure)[: None if with_arms else 2]
        for seed in range(failure.first_seed, failure.first_seed + seeds)
    ]
    results = []
    for result in run_all(run_one, tasks, jobs):
        results.append(result)
        if progress is not None:
            progress(len(results), len(tasks))
    return results
