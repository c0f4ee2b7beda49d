"""Events in the making: what sentences say, before they have an id, a time and a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from datetime import datetime

from replay_parsers.records import KINDS, EventKind, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One event as a sentence tells it.

    ``line`` and ``quote`` are where and what was read; ``heading`` marks what only a heading says, which the
    text below may make more exact; ``onset`` marks a step from which something began rather than where it
    was seen.
    """

    kind: EventKind
    step: int | None = None
    step_end: int | None = None
    field: str | None = None
    before: float | None = None
    after: float | None = None
    unit: str | None = None
    detail: Mapping[str, str] = dataclass_field(default_factory=dict)
    lost_steps: float | None = None
    lost_hours: float | None = None
    at: datetime | None = None
    line: int = 0
    quote: str = ""
    heading: bool = False
    onset: bool = False

    @property
    def role(self) -> Role:
        """The role in which the kind stands."""
        return KINDS[self.kind].role

    @property
    def bare(self) -> bool:
        """Whether the draft says no more than that the kind of thing happened."""
        values = (self.step, self.before, self.after, self.lost_hours, self.lost_steps, self.at)
        return all(value is None for value in values) and not self.detail


def _compatible(first: Draft, second: Draft) -> bool:
    """Whether two drafts can tell the same event: same kind, and nothing that contradicts."""
    if first.kind is not second.kind:
        return False
    for name in ("step", "step_end", "field", "before", "after"):
        a, b = getattr(first, name), getattr(second, name)
        if a is not None and b is not None and a != b:
            return False
    shared = first.detail.keys() & second.detail.keys()
    loose = {"flag", "certainty", "node"}
    if (first.after is None) != (second.after is None):
        # A value told once tells the direction and the factor as well.
        loose |= {"direction", "factor"}
    return all(first.detail[key] == second.detail[key] for key in shared - loose)


def merge(first: Draft, second: Draft) -> Draft:
    """One draft with what both say; ``second`` fills what ``first`` leaves open."""
    filled = {
        name: getattr(first, name) if getattr(first, name) is not None else getattr(second, name)
        for name in ("step", "step_end", "field", "before", "after", "unit", "lost_steps", "lost_hours", "at")
    }
    base = second if first.heading and not second.heading else first
    detail = {**second.detail, **first.detail}
    if filled["after"] is not None:
        detail.pop("direction", None)
        detail.pop("factor", None)
    names = dict.fromkeys(
        name for draft in (first, second) for name in draft.detail.get("node", "").split(", ") if name
    )
    if names:
        detail["node"] = ", ".join(names)
    onset = first.onset if first.step is not None else second.onset
    return replace(base, **filled, detail=detail, heading=first.heading and second.heading, onset=onset)


def settle(drafts: list[Draft]) -> list[Draft]:
    """Make one draft of those that tell the same event.

    What is merely repeated gives no second event; a step "from" which a symptom began joins the symptom that is
    seen later at a step of its own, as ``detail.onset``.
    """
    settled: list[Draft] = []
    places: dict[EventKind, list[int]] = {}
    for draft in drafts:
        told = places.setdefault(draft.kind, [])
        for index in told if len(told) <= 2 * _NEAR else (*told[:_NEAR], *told[-_NEAR:]):
            if joined := _joined(settled[index], draft):
                settled[index] = joined
                break
        else:
            told.append(len(settled))
            settled.append(draft)
    return settled


# An entry that tells hundreds of events of one kind repeats the first or the last of them, if any: to compare each
# with all would take a time that grows with their square.
_NEAR = 25


def _joined(earlier: Draft, draft: Draft) -> Draft | None:
    if earlier.kind is not draft.kind:
        return None
    if draft.kind is EventKind.SKIP_BATCHES and _one_off(earlier, draft):
        # "Back to 6650 and skip till 9500" leaves the first batch to be inferred; an option names it.
        named = earlier if earlier.detail.get("flag") else draft
        return replace(named, detail={**draft.detail, **earlier.detail})
    if draft.role is Role.SYMPTOM and earlier.step != draft.step and None not in (earlier.step, draft.step):
        if earlier.onset and not draft.onset:
            merged = merge(replace(draft, heading=False), replace(earlier, step=None))
            return replace(merged, detail={**merged.detail, "onset": str(earlier.step)}, onset=False)
        return None
    if draft.kind is EventKind.RESTART and draft.quote != earlier.quote and _AGAIN.search(draft.quote):
        return None
    if draft.bare and not _says_more_than(draft, earlier):
        return merge(earlier, draft)
    return merge(earlier, draft) if _compatible(earlier, draft) and _same_subject(earlier, draft) else None


_AGAIN = re.compile(r"\bagain\b|\banother re-?start|\bthen re-?start|又|再次", re.IGNORECASE)


def _one_off(first: Draft, second: Draft) -> bool:
    """Whether two ranges of batches end alike and begin within one step of each other."""
    if first.step is None or second.step is None or first.step_end != second.step_end:
        return False
    return abs(first.step - second.step) == 1 and bool(first.detail.get("flag")) != bool(second.detail.get("flag"))


def _says_more_than(draft: Draft, earlier: Draft) -> bool:
    return draft.field is not None and draft.field != earlier.field


def _same_subject(first: Draft, second: Draft) -> bool:
    # Two skip ranges or two changes of the same field are one event only when one of them leaves the values open.
    if first.kind is EventKind.SKIP_BATCHES:
        return first.step == second.step or first.step is None or second.step is None
    return first.field == second.field or first.field is None or second.field is None


# How many events back "lost 3 h" may refer to.
_FAR = 20


def is_addition(draft: Draft) -> bool:
    """Whether a draft is no event of its own but adds to another: what was lost, how long it lasted, from which step
    it holds."""
    return draft.kind is EventKind.GAP and draft.onset


def add_to(drafts: list[Draft], addition: Draft) -> bool:
    """Add to the last of ``drafts`` that can take it; False when none can."""
    places = [place for place in range(max(len(drafts) - _FAR, 0), len(drafts)) if not is_addition(drafts[place])]
    takers = [place for place in places if _takes(drafts[place], addition)]
    if not takers and addition.lost_steps is not None:
        takers = [place for place in places if drafts[place].role in (Role.SYMPTOM, Role.CAUSE)]
    if takers:
        # "Weight decay to 0.05; beta2 to 0.97; effective from step 900" dates all changes of one sentence.
        told = drafts[takers[-1]].quote
        same = [place for place in takers if drafts[place].quote == told] if addition.step is not None else takers[-1:]
        for place in same:
            drafts[place] = _with(drafts[place], addition)
    return bool(takers)


def absorb(drafts: list[Draft]) -> list[Draft]:
    """``drafts`` of one sentence with its additions made; those that nothing takes are kept as they are."""
    kept: list[Draft] = []
    for draft in drafts:
        if not is_addition(draft) or not add_to(kept, draft):
            kept.append(draft)
    return kept


def _takes(draft: Draft, addition: Draft) -> bool:
    if addition.step is not None:
        return draft.role is Role.INTERVENTION and draft.step is None
    if addition.lost_steps is not None:
        return draft.kind in (EventKind.RESTART, EventKind.ROLLBACK) and draft.lost_steps is None
    return draft.role in (Role.SYMPTOM, Role.CAUSE, Role.LIFECYCLE) and draft.lost_hours is None


def _with(draft: Draft, addition: Draft) -> Draft:
    return replace(
        draft,
        step=draft.step if addition.step is None else addition.step,
        lost_hours=draft.lost_hours if addition.lost_hours is None else addition.lost_hours,
        lost_steps=draft.lost_steps if addition.lost_steps is None else addition.lost_steps,
        detail={**addition.detail, **draft.detail},
    )
