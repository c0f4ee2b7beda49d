"""Who has seen this before, what did they do, and what came of it?

A :class:`Situation` is what is seen now: which symptoms, in which order, how fast, in what kind of run.
:func:`find` compares it with every incident on record and says in words what is alike and what is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from replay.errors import ReplayError
from replay.history.follow_up import ABANDONED, CAME_BACK, NOT_KNOWN, RECOVERED, STAYED_AWAY, UNAFFECTED, follow_up
from replay.history.similarity import Situation, compare, number_format, rarity
from replay_parsers.kinds import KINDS, Role
from replay_parsers.kinds import EventKind as Kind

if TYPE_CHECKING:
    from replay.store import EventStore

WINDOW = 1_000
"""How many steps before the one asked for are looked at for symptoms, where no incident is told there."""
_NEAR = 200


class PrecedentError(ReplayError):
    """There is nothing to look for: nothing was seen at that step, or no such symptom exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the proxy showed of an intervention: an effect that an experiment measured."""

    intervention: str
    scenario: str
    arm: str
    control: str
    metric: str
    n_seeds: int
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedent:
    """A similar incident: how alike (0 to 1) and why in words, what was done, what came of it and for how long."""

    incident: str
    run: str
    step: int | None
    similarity: float
    alike: tuple[str, ...]
    unlike: tuple[str, ...]
    saw: tuple[str, ...]
    did: tuple[str, ...]
    then: tuple[str, ...]
    outcome: str
    recurred_after: int | None
    followed_for: int | None
    text: str
    source: str
    proxy: tuple[Evidence, ...] = field(default=())

    @property
    def came_of_it(self) -> str:
        """What came of it in words, with how long it held."""
        if not self.did:
            told = dict.fromkeys(_OUTCOMES[kind] for kind in self.then)
            return f"nothing was done; {' and '.join(told) or 'what came of it is not told'}"
        record = f"the {self.followed_for:,} steps that the record goes on" if self.followed_for else ""
        if self.outcome == CAME_BACK:
            if Kind.WORSENED in self.then and not {Kind.RECURRED, Kind.DELAYED} & set(self.then):
                return _OUTCOMES[Kind.WORSENED]
            return "it came back" + (
                f" after {self.recurred_after:,} steps" if self.recurred_after is not None else ", when is not known"
            )
        return {
            STAYED_AWAY: f"it did not come back for {record}",
            RECOVERED: "it recovered, as the source says; for how long is not told",
            UNAFFECTED: _OUTCOMES[Kind.UNAFFECTED],
            ABANDONED: _OUTCOMES[Kind.ABANDONED],
            NOT_KNOWN: f"not known; nothing more of it is noted in {record}" if record else "not known",
        }[self.outcome]


_OUTCOMES: dict[str, str] = {
    Kind.RECOVERED: "it recovered",
    Kind.RECOVERED_BY_ITSELF: "it recovered by itself",
    Kind.RECURRED: "it came back",
    Kind.DELAYED: "it came back, though later",
    Kind.UNAFFECTED: "it changed nothing",
    Kind.WORSENED: "it got worse",
    Kind.ABANDONED: "the attempt was given up",
    Kind.COMPLETED: "the run came to its end",
    Kind.NOT_STATED: "what came of it is not told",
}


def situation_at(store: EventStore, run: str, step: int) -> Situation:
    """What was seen in ``run`` around ``step``: the incident told there, else symptoms and flags just before.

    The incident may be told at up to 200 steps later, since a person writes down where it was plain to see; ``note``
    of the situation says so.

    Raises :class:`PrecedentError` when nothing was.
    """
    description = store.runs().set_index("run").loc[run]
    told = store.incidents(run=run)
    near = told[told["step"].notna() & (told["saw"].str.len() > 0) & ((told["step"] - step).abs() <= _NEAR)]
    incident, note, onset = "", f"in the {WINDOW:,} steps up to {step:,}", None
    if len(near):
        incident = str(near.loc[(near["step"] - step).abs().sort_values(kind="stable").index[0], "incident"])
        events = store.events(run=run, role="symptom")
        own = events[events["incident"] == incident]
        seen, onset = _in_order(own), _onset(own)
        note = _note(int(near.set_index("incident").loc[incident, "step"]), step)  # type: ignore[arg-type]
    else:
        within = (step - WINDOW, step)
        seen = _in_order(store.events(run=run, role="symptom", steps=within)) or _flagged(store, run, within)
    if not seen:
        raise PrecedentError(
            f"nothing was seen in {run} within {_NEAR} steps of {step:,} or in the {WINDOW:,} before it; "
            f"`replay flags {run}` looks for signs in its signals, and --saw says what you see"
        )
    return Situation(
        saw=tuple(kind for kind, _ in seen),
        steps=tuple(at for _, at in seen),
        onset=onset,
        precision=_text(description["precision"]),
        parameters=None if pd.isna(description["parameters"]) else float(description["parameters"]),
        run=run,
        incident=incident,
        note=note,
    )


def _note(told_at: int, step: int) -> str:
    """Where the incident that is asked about is told, and whether that lies ahead of the step asked for."""
    told = f"in the incident told at step {told_at:,}"
    if told_at <= step:
        return told
    return f"{told}, {told_at - step:,} after the one asked for: up to {_NEAR} steps ahead are looked at"


def _onset(symptoms: pd.DataFrame) -> int | None:
    """The earliest step at which a symptom is said to have begun (``detail.onset``)."""
    stated = (detail.get("onset", "") for detail in symptoms["detail"])
    return min((int(onset) for onset in stated if onset.isascii() and onset.isdigit()), default=None)


def situation(
    saw: Iterable[str], *, precision: str = "", parameters: float | None = None, within: int | None = None
) -> Situation:
    """A situation in your own words: symptoms in their order, all ``within`` so many steps.

    Raises :class:`PrecedentError` for a kind that is no symptom, an unknown number format, or no number of parameters.
    """
    names = tuple(dict.fromkeys(saw))
    symptoms = [str(kind) for kind, rule in KINDS.items() if rule.role is Role.SYMPTOM]
    for name in names:
        if name not in symptoms:
            raise PrecedentError(f"{name!r} is no symptom; the symptoms are {', '.join(symptoms)}")
    if not names:
        raise PrecedentError("say what was seen")
    if precision and not number_format(precision):
        raise PrecedentError(f"{precision!r} is no number format; write fp32, tf32, bf16, fp16 or fp8")
    if parameters is not None and not (parameters > 0 and math.isfinite(parameters)):
        raise PrecedentError(f"{parameters:g} is no number of parameters; write it as in 130e9")
    steps: tuple[int | None, ...] = ()
    if within is not None and len(names) > 1:
        steps = (0, *(None for _ in names[2:]), within)
    return Situation(saw=names, steps=steps, precision=precision, parameters=parameters)


def find(store: EventStore, sought: Situation, *, limit: int = 5) -> list[Precedent]:
    """The ``limit`` most similar incidents of the store, the most similar first, without the one asked about."""
    incidents = store.incidents()
    events = store.events(role="symptom", derived=False)
    seen = {str(name): (_in_order(rows), _onset(rows)) for name, rows in events.groupby("incident", sort=False)}
    runs = store.runs().set_index("run")
    weights = rarity(incidents["saw"])
    outcomes = follow_up(store).set_index("incident")
    effects = store.effects()
    found = []
    for row in cast("list[dict[str, Any]]", incidents.to_dict("records")):
        if not row["saw"] or row["incident"] == sought.incident:
            continue
        description = runs.loc[row["run"]]
        other = _situation_of(row, *seen.get(row["incident"], ([], None)), description)
        similarity, alike, unlike = compare(sought, other, weights)
        if similarity > 0:
            found.append((similarity, row, other, alike, unlike))
    found.sort(key=lambda one: (-one[0], not one[1]["did"], one[1]["incident"]))
    return [_precedent(*one, outcomes, effects) for one in found[:limit]]


def _situation_of(
    row: dict[str, Any], seen: Sequence[tuple[str, int | None]], onset: int | None, description: pd.Series
) -> Situation:
    return Situation(
        saw=tuple(kind for kind, _ in seen) or tuple(row["saw"]),
        steps=tuple(step for _, step in seen),
        onset=onset,
        precision=_text(description["precision"]),
        parameters=None if pd.isna(description["parameters"]) else float(description["parameters"]),
        run=row["run"],
        incident=row["incident"],
    )


def _precedent(
    similarity: float,
    row: dict[str, Any],
    other: Situation,
    alike: list[str],
    unlike: list[str],
    outcomes: pd.DataFrame,
    effects: pd.DataFrame,
) -> Precedent:
    known = outcomes.loc[row["incident"]] if row["incident"] in outcomes.index else None
    return Precedent(
        incident=row["incident"],
        run=row["run"],
        step=None if pd.isna(row["step"]) else int(row["step"]),
        similarity=round(similarity, 3),
        alike=tuple(alike),
        unlike=tuple(unlike),
        saw=other.saw,
        did=tuple(row["did"]),
        then=tuple(row["then"]),
        outcome=NOT_KNOWN if known is None else str(known["outcome"]),
        recurred_after=None if known is None or pd.isna(known["recurred_after"]) else int(known["recurred_after"]),
        followed_for=None if known is None or pd.isna(known["followed_for"]) else int(known["followed_for"]),
        text=row["text"],
        source=row["source"],
        proxy=tuple(proxy_evidence(effects, row["did"])),
    )


def proxy_evidence(effects: pd.DataFrame, did: Iterable[str]) -> list[Evidence]:
    """What experiments in the store found of the interventions ``did``, by the names of their arms.

    An arm is named after what it does (``rollback+skip_batches``); one that does several of them is told once.
    Only effects with a verdict are evidence; a cost is none.
    """
    done = set(did)
    return [
        Evidence(
            intervention=row["arm"],
            scenario=row["scenario"],
            arm=row["arm"],
            control=row["control"],
            metric=row["metric"],
            n_seeds=int(row["n_seeds"]),
            verdict=row["verdict"],
        )
        for row in effects.to_dict("records")
        if _text(row["verdict"]) and done & set(re.split(r"[^a-z0-9_]+", row["arm"]))
    ]


def _in_order(symptoms: pd.DataFrame) -> list[tuple[str, int | None]]:
    """Kinds and steps by step; those without one where they are told."""
    rows = [
        (str(row["kind"]), None if pd.isna(row["step"]) else int(row["step"])) for row in symptoms.to_dict("records")
    ]
    known = sorted((row for row in rows if row[1] is not None), key=lambda row: row[1] or 0)
    seen: dict[str, int | None] = {}
    for kind, step in [*known, *(row for row in rows if row[1] is None)]:
        seen.setdefault(kind, step)
    return list(seen.items())


def _flagged(store: EventStore, run: str, within: tuple[int, int]) -> list[tuple[str, int | None]]:
    """What rules fired on: a rule whose name is a symptom's stands for it."""
    flags = store.flags(run)
    flags = flags[(flags["step"] >= within[0]) & (flags["step"] <= within[1])].sort_values("step", kind="stable")
    aliases = {"loss_not_finite": "nan_loss", "loss_plateau": "plateau", "loss_scale_collapse": "loss_scale_drop"}
    seen: dict[str, int | None] = {}
    for rule, step in zip(flags["rule"], flags["step"], strict=True):
        name = str(rule).replace("-", "_")
        kind = aliases.get(name, name)
        if kind in {str(known) for known, what in KINDS.items() if what.role is Role.SYMPTOM}:
            seen.setdefault(kind, int(step))
    return list(seen.items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
