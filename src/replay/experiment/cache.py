"""Finished arms on disk, so that an interrupted experiment goes on where it stood.

One file an arm and seed, named by the hash of all that decides its bits: the scenario's settings, the arm, the
configs that the failure made for the seed, the rule that notices it, the code of the proxy, of the arms and of the
rules, the versions of torch and numpy, the machine's architecture and the instructions that torch computes by.  A file
that is cut off, changed or of another content is as good as none.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replay.experiment.arms import SIGNALS, ArmRun
from replay.experiment.scenario import Scenario, arm_fields

if TYPE_CHECKING:
    from replay.proxy.failure import Case

FORMAT = 2


def key(scenario: Scenario, case: Case, arm: str) -> str:
    """The name under which an arm of a seed is kept: 32 hexadecimal digits."""
    from replay.proxy.assessment import code_digest

    known = {one.name: arm_fields(one) for one in scenario.all_arms}
    decides = {
        "format": FORMAT,
        "signals": SIGNALS,
        "arm": known.get(arm, {"name": arm}),
        "earliest_step": scenario.earliest_step,
        "noticed": [scenario.noticed.after_onset, _rule_content(scenario.noticed.rule)],
        "horizon": scenario.horizon,
        "held_out_sequences": scenario.held_out_sequences,
        "config": case.config.to_dict(),
        "control": case.control.to_dict(),
        "onset": case.moment,
        "code": [code_digest(), _own_code(), _rules_code() if scenario.noticed.rule else ""],
        "machine": platform.machine(),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:32]


def _rule_content(name: str) -> str:
    """What a rule of that name asks for; nothing where there is none, as for a moment that needs no rule."""
    if not name:
        return ""
    from replay import rules

    chosen = [rule for rule in rules.load() if rule.name == name]
    return repr([(rule.when, rule.for_points, rule.for_steps, rule.tolerate) for rule in chosen])


@functools.cache
def _own_code() -> str:
    """SHA-256 of the modules that decide when someone acts, what an arm does, and what is kept of it."""
    folder = Path(__file__).parent
    return _digest_of(folder / f"{name}.py" for name in ("arms", "interventions", "moment"))


@functools.cache
def _rules_code() -> str:
    from replay import rules

    return _digest_of(sorted(Path(rules.__file__).parent.rglob("*.py")))


def _digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def load(folder: Path, name: str) -> ArmRun | None:
    """The arm kept under a key, or None when there is none that is whole."""
    try:
        kept = json.loads((folder / f"{name}.json").read_bytes())
        content = kept["run"]
        if kept["sha256"] != _digest(content):
            return None
        values = np.frombuffer(base64.b64decode(content["values"]), dtype="<f8")
        return ArmRun(
            arm=content["arm"],
            steps=np.array(content["steps"], dtype=np.int64),
            values=values.reshape(len(content["steps"]), 1 + len(SIGNALS)).astype(np.float64),
            **{field: content[field] for field in ("departure", "end", "steps_recomputed", "batches_skipped")},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(folder: Path, name: str, run: ArmRun) -> None:
    """Keep an arm: written under a temporary name, flushed and renamed, so that a kill leaves no half of it.

    A folder that cannot be written costs the next run its time, not this one its result.
    """
    content = {
        "arm": run.arm,
        "steps": run.steps.tolist(),
        "values": base64.b64encode(run.values.astype("<f8").tobytes()).decode("ascii"),
        "departure": run.departure,
        "end": run.end,
        "steps_recomputed": run.steps_recomputed,
        "batches_skipped": run.batches_skipped,
    }
    text = json.dumps({"sha256": _digest(content), "run": content}, sort_keys=True)
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / f"{name}.json")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
