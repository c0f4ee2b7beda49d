"""What the demonstration did to its run, told as a logbook: the same format as anyone's, read by the same parser.

Everything in it follows from the run's configuration, from what was done to it, and from what the rules say of its
telemetry; nothing is known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

if TYPE_CHECKING:
    from replay.proxy.config import ProxyConfig
    from replay.rules import Flag, Series

LOGBOOK = "logbook.yaml"
DELIBERATE = "deliberate"
"""Key of an event's detail: "yes" where what the event tells was brought about on purpose."""

_SOURCE = "replay demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """What was done to the run: put back from ``reached`` to ``back_to``, ``skipped`` batches left out from there.

    ``noticed_at`` and ``ended_at`` are seconds since 1970: when it was stopped, and when it had trained on.
    """

    reached: int
    back_to: int
    skipped: int
    noticed_at: float
    ended_at: float


class Telemetry:
    """What the rules read of a run while it is trained: the signals of each step, by attempt."""

    def __init__(self) -> None:
        self._points: dict[str, list[tuple[int, int, float]]] = {}

    def add(self, attempt: int, step: int, signals: Mapping[str, float]) -> None:
        """Take what a step logs."""
        from replay.signals import signal_of

        for name, value in signals.items():
            signal = signal_of(f"train/{name}")
            if signal is not None:
                self._points.setdefault(signal, []).append((attempt, step, float(value)))

    def series(self) -> dict[str, Series]:
        """One series for each signal."""
        from replay.rules import Series

        found = {}
        for signal, points in self._points.items():
            attempt, step, value = zip(*points, strict=True)
            found[signal] = Series.of(value, step=step, attempt=attempt)
        return found


def write_logbook(
    folder: Path, run: str, failure: str, config: ProxyConfig, telemetry: Telemetry, done: Intervention
) -> Path:
    """Write ``folder``/logbook.yaml on ``run``, which ``config`` made fail by the catalogue's ``failure``."""
    incident: dict[str, Any] = {
        "id": "made-to-fail",
        "at": _time(done.noticed_at),
        "precision": "second",
        "locator": f"step {done.reached}",
        "evidence": "logged",
        "seen": [_symptom(flag) for flag in _flags(telemetry, attempt=0)],
        "cause": [_cause(defect, failure) for defect in config.to_dict()["data"]["defects"]],
        "done": _interventions(done),
        "then": [_outcome(telemetry, done)],
    }
    document = {
        "run": _description(run, config),
        "incidents": [{key: value for key, value in incident.items() if value}],
    }
    path = folder / LOGBOOK
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110), encoding="utf-8")
    return path


def _description(run: str, config: ProxyConfig) -> dict[str, Any]:
    from replay.proxy import parameters

    model, data, optimizer, schedule = config.model, config.data, config.optimizer, config.schedule
    clip = f"clip {optimizer.grad_clip:g}" if optimizer.grad_clip else "no clipping"
    return {
        "name": run,
        "title": "Proxy transformer, made to fail on purpose",
        "organisation": "replay's demonstration",
        "parameters": float(parameters.parameter_count(model)),
        "precision": config.precision.mode,
        "optimizer": (
            f"{optimizer.name}, beta {optimizer.beta1:g}/{optimizer.beta2:g}, "
            f"weight decay {optimizer.weight_decay:g}, {clip}"
        ),
        "batch": f"{data.batch_size} sequences of {model.context} tokens ({data.source} task)",
        "schedule": f"{schedule.name}, {schedule.learning_rate:g} after {schedule.warmup_steps} steps of warm-up",
        "clock": "UTC",
        "batch_schedule": [{"from_step": 0, "samples": data.batch_size}],
        "sequence_length": model.context,
        "metadata": dict(_leaves(config.to_dict())),
        "sources": {"demo": _SOURCE},
    }


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, str]]:
    """Every setting that is not empty, as text by its dotted name."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{name}.")
        elif value not in (None, "", [], ()):
            found.append((f"{prefix}{name}", str(value)))
    return found


def _flags(telemetry: Telemetry, attempt: int) -> list[Flag]:
    """What is worth acting on of what the rules say."""
    from replay import rules

    found = rules.evaluate(rules.load(), telemetry.series())
    return [
        flag
        for flag in (*found.flags, *found.recurrences)
        if flag.attempt == attempt and flag.severity != rules.Severity.INFO
    ]


def _symptom(flag: Flag) -> dict[str, Any]:
    values = {"before": flag.baseline, "after": flag.value}
    return {
        "kind": str(flag.announces),
        "step": flag.step,
        "step_end": flag.step_end,
        "field": flag.signal,
        **{name: float(f"{value:.6g}") for name, value in values.items() if np.isfinite(value)},
        "evidence": "derived",
        "detail": {"rule": flag.rule},
        "text": f"By the rule {flag.rule}: {flag.message}.",
    }


def _cause(defect: Mapping[str, Any], failure: str) -> dict[str, Any]:
    first, last = int(defect["first"]), int(defect["last"])
    batches = f"batch {first}" if first == last else f"batches {first} to {last}"
    return {
        "kind": "data_defect",
        "step": first,
        "step_end": last,
        "detail": {DELIBERATE: "yes", "failure": failure, "defect": str(defect["kind"]), "share": str(defect["share"])},
        "text": f"{float(defect['share']):.0%} of the sequences of {batches} are {defect['kind']}.",
    }


def _interventions(done: Intervention) -> list[dict[str, Any]]:
    first = done.back_to + 1
    last = done.back_to + done.skipped
    return [
        {
            "kind": "rollback",
            "step": done.back_to,
            "before": done.reached,
            "unit": "step",
            "lost_steps": done.reached - done.back_to,
            "text": f"Back to the checkpoint of step {done.back_to}.",
        },
        {
            "kind": "skip_batches",
            "step": first,
            "step_end": last,
            "detail": {"mode": "shift", "batches": str(done.skipped)},
            "text": f"Batches {first} to {last} were left out: step {first} took batch {last + 1}.",
        },
    ]


def _outcome(telemetry: Telemetry, done: Intervention) -> dict[str, Any]:
    """What came of it, as far as the loss of the steps after the rollback tells."""
    outcome: dict[str, Any] = {"at": _time(done.ended_at), "precision": "second", "evidence": "derived"}
    again = _flags(telemetry, attempt=1)
    if again:
        first = min(again, key=lambda flag: flag.step)
        return outcome | {"kind": "recurred", "step": first.step, "text": f"By the rule {first.rule}: {first.message}."}
    loss = telemetry.series()["loss"]
    reached = float(np.median(loss.value[loss.attempt == 1][-_LAST:]))
    usual = float(np.median(loss.value[(loss.attempt == 0) & (loss.step <= done.back_to)][-_LAST:]))
    text = (
        f"No rule fired again up to step {int(loss.step[-1])}; the median loss of the last {_LAST} steps is "
        f"{reached:.4g}, against {usual:.4g} before step {done.back_to}."
    )
    well = reached <= usual * _AS_BEFORE
    return outcome | {"kind": "recovered" if well else "not_stated", "step": int(loss.step[-1]), "text": text}


_LAST = 50
_AS_BEFORE = 1.25
"""A loss up to this many times that before the failure counts as recovered."""


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
