"""What an engineer must know in half a minute: what the run is, what happened, what it cost, what is not known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from replay.output import is_missing
from replay.report.checks import Checks, RuleCheck
from replay.report.doubts import doubts_in_words
from replay.report.drawn import with_branch
from replay.report.reading import RunReading, records
from replay.report.tally import incidents_in_words, losses_in_words, recovered, tally_incidents, tally_losses
from replay.report.words import count, listed, moment, number, shortened, size, spelled, steps

GRAVITY = (
    "loss_explosion",
    "nan_loss",
    "divergence",
    "loss_scale_floor",
    "crash",
    "hang",
    "loss_spike",
    "loss_scale_drop",
    "grad_norm_spike",
    "attention_logit_growth",
    "activation_norm_drift",
    "overflow_skip",
    "plateau",
    "throughput_drop",
    "gap",
)
"""Symptoms, gravest first: what ends a run before what slows it."""

_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that stands by itself, its name, and one remark."""

    label: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """``tone`` colours the headline: critical, warning, or quiet; never good, for silence proves nothing."""

    identity: str
    headline: str
    tone: str
    sentences: list[str]
    figures: list[Figure]


def summarise(reading: RunReading, checks: Checks) -> Summary:
    """The report's first screen, in plain words."""
    headline, tone = _headline(reading, checks)
    sentences = [
        _deliberate(reading),
        _record(reading),
        _incidents(reading),
        _attempts(reading),
        _end(reading),
        _doubted(checks),
        _unknown(checks),
    ]
    return Summary(
        identity=_identity(reading.facts),
        headline=headline,
        tone=tone,
        sentences=[sentence for sentence in sentences if sentence],
        figures=_figures(reading, checks),
    )


def _identity(facts: dict[str, Any]) -> str:
    parts = [str(facts.get("organisation") or ""), size(facts.get("parameters"))]
    parts += [str(facts.get(name) or "") for name in ("hardware", "precision", "optimizer", "batch", "schedule")]
    known = [part for part in parts if part]
    return " · ".join(known) if known else "The sources say nothing of this run's configuration."


def _headline(reading: RunReading, checks: Checks) -> tuple[str, str]:
    incident = _gravest(reading.incidents)
    if incident is not None:
        what = spelled(_worst_symptom(incident["saw"]) or (incident["cause"] or ["incident"])[0])
        where = f" at step {steps(incident['step'])}" if not is_missing(incident["step"]) else ""
        when = f" on {moment(incident['time'], 'day')}" if not is_missing(incident["time"]) else ""
        did = listed([spelled(kind) for kind in incident["did"]]) or "nothing on record"
        then = listed([spelled(kind) for kind in incident["then"] if kind != "not_stated"]) or "not stated"
        grave = GRAVITY.index(_worst_symptom(incident["saw"]) or GRAVITY[-1]) <= GRAVITY.index("loss_spike")
        tone = "critical" if grave else "warning"
        return f"Gravest incident: {what}{where}{when}. Done: {did}. Then: {then}.", tone
    flags = records(reading.flags)
    if flags:
        return _flags_headline(flags)
    if checks.checked:
        fired = "It fired on nothing" if len(checks.checked) == 1 else "None of them fired"
        rest = f"; {count(len(checks.unchecked), 'rule')} could not be checked" if checks.unchecked else ""
        return f"No incident on record. {count(len(checks.checked), 'rule')} could be checked. {fired}{rest}.", "quiet"
    return "No incident on record, and no rule could be checked: this report cannot say how the run went.", "warning"


def _flags_headline(flags: list[dict[str, Any]]) -> tuple[str, str]:
    """The first step of the gravest severity, and all that was flagged there."""

    def place(flag: dict[str, Any]) -> tuple[int, int]:
        return _SEVERITY_ORDER.get(str(flag["severity"]), 3), -1 if is_missing(flag["step"]) else int(flag["step"])

    first = min(flags, key=place)
    there = [flag for flag in flags if place(flag) == place(first)]
    names = listed(list(dict.fromkeys(f"“{flag['rule']}”" for flag in there)))
    flagged = "flag of the rule" if len(there) == 1 else "flags of the rule" if names.count("“") == 1 else "flags of"
    where = "" if is_missing(first["step"]) else f" at step {steps(first['step'])}"
    words = "; ".join(dict.fromkeys(str(flag["message"]) for flag in there))
    return (
        f"No incident on record, but rules fired. First of the gravest: {first['severity']} {flagged} "
        f"{names}{where}: {words}",
        "critical" if first["severity"] == "critical" else "warning",
    )


def _worst_symptom(saw: list[str]) -> str | None:
    known = [kind for kind in saw if kind in GRAVITY]
    return min(known, key=GRAVITY.index) if known else None


def _gravest(incidents: pd.DataFrame) -> dict[str, Any] | None:
    """The incident with the gravest symptom; among equals the one that was not settled, then the latest."""
    rows = records(incidents)
    if not rows:
        return None

    def rank(position: int) -> tuple[int, bool, int]:
        worst = _worst_symptom(rows[position]["saw"])
        gravity = len(GRAVITY) if worst is None else GRAVITY.index(worst)
        return gravity, recovered(rows[position]["then"]), -position

    best: dict[str, Any] = rows[min(range(len(rows)), key=rank)]
    return best


def _record(reading: RunReading) -> str:
    first_step, last_step = step_span(reading)
    word = "step" if first_step == last_step else "steps"
    parts = [f"{word} {steps(first_step, last_step)}"] if last_step is not None else []
    times = reading.events["time"].dropna()
    times = pd.concat([times, *(signal.rows["time"].dropna() for signal in reading.signals.values())])
    if len(times):
        first, last = moment(times.min(), "day"), moment(times.max(), "day")
        parts.append(first if first == last else f"{first} to {last}")
    sources = list(reading.facts.get("sources") or [])
    told = f", told by {count(len(sources), 'source')}" if sources else ""
    return f"The record covers {listed(parts)}{told}." if parts else f"The record names no step and no date{told}."


def _deliberate(reading: RunReading) -> str:
    """That a failure was brought about on purpose, which no reader of a report may have to guess."""
    told = [event for event in records(reading.events) if (event["detail"] or {}).get("deliberate") == "yes"]
    parts = []
    for event in told:
        where = "" if is_missing(event["step"]) else f" at step {steps(event['step'], event['step_end'])}"
        text = str(event["text"]).rstrip(".")
        parts.append(f"{spelled(event['kind'])}{where}" + (f": {text}" if text else ""))
    return f"Brought about on purpose: {'; '.join(parts)}." if parts else ""


_BEGINS = ("start", "restart", "rollback")


def step_span(reading: RunReading) -> tuple[int | None, int | None]:
    """The first and last step that anything of the run mentions, measured or told.

    What begins or goes on does so from a checkpoint, whose step is not among those that were trained: the next is.
    """
    begins = reading.events["kind"].isin(_BEGINS)
    columns = [reading.tags["first_step"], reading.tags["last_step"]]
    columns += [reading.events.loc[~begins, "step"], reading.events["step_end"], reading.attempts["end_step"]]
    known = [int(step) for column in columns for step in (column.min(), column.max()) if not is_missing(step)]
    loaded = [reading.events.loc[begins, "step"], reading.attempts["start_step"]]
    begun = [int(step) for column in loaded for step in (column.min(), column.max()) if not is_missing(step)]
    if not known:
        return (min(begun), max(begun)) if begun else (None, None)
    return min([*known, *(step + 1 for step in begun)]), max([*known, *begun])


def _incidents(reading: RunReading) -> str:
    if reading.incidents.empty:
        return ""
    seen = Counter(spelled(kind) for saw in reading.incidents["saw"] for kind in set(saw))
    done = Counter(spelled(kind) for did in reading.incidents["did"] for kind in set(did))
    text = incidents_in_words(tally_incidents(reading.incidents))
    if seen:
        text += f" Seen most: {_most(seen)}."
    if done:
        text += f" Done most: {_most(done)}."
    return text


def _most(counter: Counter[str], limit: int = 3) -> str:
    ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return listed([f"{kind} ({n}×)" for kind, n in ranked])


def _attempts(reading: RunReading) -> str:
    n = len(reading.attempts)
    if n < 2:
        return ""
    rollbacks = int((reading.events["kind"] == "rollback").sum())
    text = f"Training was restarted {count(n - 1, 'time')}"
    if 0 < rollbacks < n:
        text += f" ({count(rollbacks, 'rollback')} on record)"
    return f"{text}; {losses_in_words(tally_losses(reading.attempts))}."


def _end(reading: RunReading) -> str:
    loss = reading.signals.get("loss")
    if loss is None or loss.rows.empty:
        return (
            "No loss was logged that replay recognises, so this report has no curve to show."
            if len(reading.tags)
            else ""
        )
    rows = with_branch(loss.rows, reading.attempts)
    value, step = rows["value"].to_numpy(float), rows["step"].to_numpy(np.int64)
    good = np.isfinite(value)
    if not good.any():
        return "Not one logged loss is a finite number."
    low = int(np.where(good, value, np.inf).argmin())
    lowest = f"lowest {number(value[low])} at step {steps(step[low])}"
    if good[-1]:
        return f"The loss was {lowest}, and last {number(value[-1])} at step {steps(step[-1])}."
    return (
        f"The loss ends as {'NaN' if np.isnan(value[-1]) else number(value[-1])} at step {steps(step[-1])}; "
        f"it was {lowest}."
    )


def _doubted(checks: Checks) -> str:
    """What was read and cannot be right as it stands."""
    return f"In doubt: {doubts_in_words(checks.doubts)}." if checks.doubts else ""


def _unknown(checks: Checks) -> str:
    """What the reader must not conclude."""
    doubts = []
    if checks.problems:
        doubts.append(f"{count(len(checks.problems), 'place')} in the sources could not be read")
    if checks.not_understood:
        were = "was" if checks.not_understood == 1 else "were"
        doubts.append(f"{count(checks.not_understood, 'line or record', 'lines or records')} {were} not understood")
    for rules, what in ((checks.without_data, "no data"), (checks.too_few, "too few data")):
        if rules:
            doubts.append(f"{count(len(rules), 'rule')} had {what} ({shortened([_lack(rule) for rule in rules], 4)})")
    if checks.masked_nan:
        doubts.append("the loss may hide NaN")
    return f"Not known: {listed(doubts)}." if doubts else ""


def _lack(rule: RuleCheck) -> str:
    return f"{rule.name}: {rule.lack}" if rule.lack else rule.name


def _figures(reading: RunReading, checks: Checks) -> list[Figure]:
    figures = []
    first, last = step_span(reading)
    if last is not None:
        figures.append(Figure(label="Last step", value=steps(last), remark=f"first {steps(first)}"))
    n = len(reading.incidents)
    tally = tally_incidents(reading.incidents)
    sort = (
        f"{tally.symptoms:,} with a symptom, {tally.recovered:,} of them recovered" if tally.symptoms else "no symptom"
    )
    figures.append(Figure(label="Incidents", value=f"{n:,}", remark=sort if n else "on record"))
    critical = int((reading.flags["severity"] == "critical").sum())
    figures.append(
        Figure(
            label="Flags",
            value=f"{len(reading.flags):,}" if checks.checked or len(reading.flags) else "—",
            remark=f"{critical:,} critical" if checks.checked or len(reading.flags) else "no rule could be checked",
        )
    )
    if len(reading.attempts):
        losses = tally_losses(reading.attempts)
        least = "" if losses.is_complete else "at least "
        remark = f"{least}{number(losses.steps)} steps rolled back" if losses.steps or losses.is_complete else ""
        figures.append(
            Figure(label="Attempts", value=f"{len(reading.attempts):,}", remark=remark or "steps rolled back: not told")
        )
    hours = reading.incidents["lost_hours"].dropna()
    if len(hours):
        figures.append(
            Figure(label="Hours lost", value=number(hours.sum()), remark=f"stated for {len(hours):,} of {n:,}")
        )
    figures.append(
        Figure(
            label="Rules checked",
            value=f"{len(checks.checked):,} of {len(checks.checked) + len(checks.unchecked):,}",
            remark=", ".join(
                f"{len(rules):,} {what}"
                for rules, what in ((checks.without_data, "without data"), (checks.too_few, "with too few"))
                if rules
            ),
        )
    )
    return figures
