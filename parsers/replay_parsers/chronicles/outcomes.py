"""What came of it: outcomes that later entries tell of earlier ones.

A symptom that is told again after something was done about it has ``recurred``; a change that answered no
symptom and was followed by one has ``worsened`` things; and where nothing of the kind is told again, the silence
shows that the run ``recovered`` (evidence ``derived``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.grouping import MOVES
from replay_parsers.chronicles.incidents import DAMAGE, Incident
from replay_parsers.records import EventKind, Evidence, Role

K = EventKind

# Symptoms that one trouble shows in turn count as the same trouble coming back.
_FAMILIES = (
    frozenset({K.LOSS_EXPLOSION, K.LOSS_SCALE_DROP, K.LOSS_SCALE_FLOOR}),
    frozenset({K.DIVERGENCE, K.NAN_LOSS}),
    frozenset({K.GRAD_NORM_SPIKE, K.LOSS_SPIKE}),
)
_TRAINING = frozenset(
    {
        *(K.LR_CHANGE, K.LR_REWARM, K.LR_SCHEDULE_CHANGE, K.GRAD_CLIP_CHANGE, K.WEIGHT_DECAY_CHANGE),
        *(K.OPTIMIZER_BETAS_CHANGE, K.OPTIMIZER_SWAP, K.OPTIMIZER_RESET, K.LOSS_SCALE_CHANGE, K.Z_LOSS_CHANGE),
        *(K.EMBEDDING_GRAD_SCALE_CHANGE, K.QK_NORM, K.INIT_CHANGE, K.ARCHITECTURE_CHANGE, K.ACTIVATION_CHANGE),
        *(K.PRECISION_CHANGE, K.DATA_CHANGE, K.DATA_MIX_RAMP, K.DATA_RESHUFFLE, K.SEED_CHANGE, K.BATCH_SIZE_CHANGE),
        *(K.SKIP_BATCHES, K.ROLLBACK),
    }
)
_INSTABILITY = DAMAGE | {K.GRAD_NORM_SPIKE}
_STATED = frozenset({K.RECOVERED, K.RECOVERED_BY_ITSELF, K.RECURRED, K.WORSENED, K.UNAFFECTED, K.DELAYED, K.NOT_STATED})


def _family(kinds: set[EventKind]) -> set[EventKind]:
    found: set[EventKind] = set()
    for family in _FAMILIES:
        if kinds & family:
            found |= family
    return found


def add(incidents: Sequence[Incident]) -> None:
    """Add to each incident what later ones tell of it.  Outcomes that an entry states itself are kept as they are."""
    for earlier, later in pairwise(incidents):
        _came_again(earlier, later)
    for index, incident in enumerate(incidents):
        if incident.kinds() & _STATED:
            continue
        if outcome := _outcome(index, incidents):
            incident.drafts.append(outcome)


def _came_again(earlier: Incident, later: Incident) -> None:
    """Let an incident that begins with "the same happened again" tell that of the one before, which shows it, too.

    What came of this one can only be told after something was done about it.
    """
    acted = next((place for place, draft in enumerate(later.drafts) if _is_deed(draft)), 0)
    again = next((draft for draft in later.drafts[:acted] if draft.kind is K.RECURRED and draft.quote), None)
    symptoms = {draft.kind for draft in later.drafts if draft.role is Role.SYMPTOM}
    if again is None or not symptoms & _shown(earlier):
        return
    later.drafts.remove(again)
    if K.RECURRED not in earlier.kinds():
        seen = later.first(symptoms & _shown(earlier))
        earlier.drafts.append(_told(K.RECURRED, later, seen.step if seen else None, {}))


def _is_deed(draft: Draft) -> bool:
    return draft.role is Role.INTERVENTION and not draft.heading


def _shown(incident: Incident) -> set[EventKind]:
    """The symptoms of an incident and those that one trouble shows with them."""
    symptoms = {draft.kind for draft in incident.drafts if draft.role is Role.SYMPTOM}
    return symptoms | _family(symptoms)


def _outcome(index: int, incidents: Sequence[Incident]) -> Draft | None:
    incident = incidents[index]
    done = incident.kinds() & _TRAINING
    if not done:
        return None
    if again := _again(incident):
        return again
    symptoms = incident.kinds() & _INSTABILITY
    following = incidents[index + 1 :]
    if not symptoms:
        return _of_a_change(incident, following)
    trouble = next((other for other in following if other.kinds() & _INSTABILITY), None)
    if trouble is None:
        return _quiet(following[-1]) if following else None
    if trouble.kinds() & _family(symptoms):
        again = trouble.first(_family(symptoms))
        approximate = {"approximate": "step"} if again and again.detail.get("approximate") else {}
        return _told(K.RECURRED, trouble, again.step if again else None, approximate)
    return _quiet(trouble, step=False)


def _again(incident: Incident) -> Draft | None:
    """A trouble that an entry itself tells to have come again, after what was done about it."""
    acted = [place for place, draft in enumerate(incident.drafts) if draft.kind in _TRAINING and not draft.heading]
    if not acted:
        return None
    deed = incident.drafts[acted[-1]].quote
    for place, draft in enumerate(incident.drafts):
        if draft.kind not in _INSTABILITY or draft.heading:
            continue
        if _LED_TO_IT_AGAIN.search(deed) if draft.quote == deed else place > acted[-1] and _AGAIN.search(draft.quote):
            return Draft(kind=K.RECURRED, step=draft.step, line=draft.line, quote=draft.quote)
    return None


# In one line with what was done: "back to 700 -> nan again".
_LED_TO_IT_AGAIN = re.compile(
    r"\d.{0,40}?(?:->|→|=>|⇒)\s?[A-Za-z][^;]{0,40}?(?:\bagain\b|\bonce more\b)", re.IGNORECASE
)
_AGAIN = re.compile(r"\bagain\b|\bonce more\b|\banew\b|又|再次", re.IGNORECASE)


def _of_a_change(incident: Incident, following: Sequence[Incident]) -> Draft | None:
    if incident.kinds() & {K.PLATEAU, K.THROUGHPUT_DROP}:
        return Draft(kind=K.NOT_STATED, line=incident.entry.line)
    if not following or not following[0].kinds() & DAMAGE:
        return None
    seen = following[0].first(DAMAGE)
    return _told(K.WORSENED, following[0], seen.step if seen else None, {})


def _told(kind: EventKind, later: Incident, step: int | None, detail: dict[str, str]) -> Draft:
    draft = Draft(kind=kind, step=step, line=later.entry.line)
    return replace(draft, detail={**detail, "locator": f"§ {later.entry.heading}", "told_by": later.name})


def _quiet(last: Incident, *, step: bool = True) -> Draft:
    """The trouble is not told again up to the incident ``last``."""
    reached = last.first(MOVES) if step else None
    draft = _told(K.RECOVERED, last, reached.step if reached else None, {})
    return replace(draft, detail={**draft.detail, "evidence": Evidence.DERIVED.value})
