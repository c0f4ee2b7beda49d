"""From a sentence to what it says happened."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from replay_parsers.chronicles import changes, moves
from replay_parsers.chronicles.clauses import clauses
from replay_parsers.chronicles.drafts import Draft
from replay_parsers.chronicles.phrases import flags, hours, nodes, number, positions
from replay_parsers.chronicles.words import ACTIONS, CAUSES, OUTCOMES, SYMPTOMS, Term
from replay_parsers.records import EventKind, Role

K = EventKind

_ELSEWHERE = re.compile(
    r"\b(?:as it is|as it was|same as|like|than|similar to|as)\s+(?:it\s+\w+\s+)?(?:in|at|around)?\s*$|和\s*$|与\s*$",
    re.IGNORECASE,
)
_APPROXIMATE = re.compile(
    r"(?:\b(?:around|about|near|roughly|approx\w*)\s+|~\s*)(?:(?:global[ _]?)?(?:step|iteration)\s*)?$|大约\s*$",
    re.IGNORECASE,
)
_ONSET = re.compile(r"(?:\bfrom\b|\bsince\b|从)\s*$", re.IGNORECASE)
_SUSPECTED = re.compile(
    r"\b(?:suspect\w*|probabl[ey]|perhaps|maybe|might|may be|possibly|likely)\b|怀疑|推测|可能|疑似", re.IGNORECASE
)
_BREAKS = re.compile(
    r"\b(?:breaks?|broke|broken|fail\w*|died?|dies|crash\w*|down|dead|lost|loses|disconnect\w*)\b|挂了|坏|故障|失联|掉",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"\b(?:los[et]|losing|cost us|wasted)\b[^.;]{0,40}\b(?:hours?|h|hrs?|work|training|days?|min\w*)\b|\b\d[\d.]*\s?h\b[^.;]{0,12}\blost|损失|浪费",
    re.IGNORECASE,
)
_LOST_STEPS = re.compile(
    r"\b(?:los[et]|losing|wasted)\b\s+(?:about |~|some )?(?P<n>\d[\d,_]*)\s*(?:steps|iterations|updates)\b|损失了?\s*(?P<zh>\d+)\s*步",
    re.IGNORECASE,
)
_RATE = re.compile(r"\b(?:only|to|at)?\s*(?P<n>\d+(?:\.\d+)?)\s*T(?:FLOPs?)?\b", re.IGNORECASE)
_OF_MACHINES = frozenset({K.CHECKPOINT_INTERVAL_CHANGE, K.TOPOLOGY_CHANGE, K.ROLLBACK})
_NO_STEP = frozenset({K.THROUGHPUT_DROP, K.HANG})


def read_sentence(sentence: str, *, line: int, heading: bool = False) -> list[Draft]:
    """Everything a sentence says happened.  An empty list means that it was not understood."""
    found: list[Draft] = []
    for clause in clauses(sentence):
        found.extend(_read_clause(clause, sentence))
    quote = sentence if len(sentence) <= 300 else sentence[:297] + "..."
    return [replace(draft, line=line, quote=quote, heading=heading) for draft in found]


def _read_clause(clause: str, sentence: str) -> list[Draft]:
    found = [_from_term(term, clause) for term in _terms(clause)]
    symptom = any(draft.role is Role.SYMPTOM for draft in found)
    # "The loss scale drops" is seen, not done: without values it is no change of a setting.
    found.extend(
        change
        for change in changes.from_prose(clause, sentence)
        if not symptom or change.after is not None or "factor" in change.detail
    )
    for flag in flags(clause):
        found.extend(changes.from_flag(flag))
    found.extend(moves.skips(clause))
    moved = moves.restarts(clause)
    step = changes.effective_step(clause)
    acts = [draft for draft in found if draft.role is Role.INTERVENTION and draft.kind is not K.SKIP_BATCHES]
    if not moved and step is not None and acts and not symptom:
        # A setting takes effect only when training is started anew, so "from N step" names the checkpoint.
        moved = [Draft(kind=K.RESTART, step=step)]
    if step is not None:
        found = [
            replace(draft, step=step)
            if draft in acts and draft.step is None and draft.kind not in _OF_MACHINES
            else draft
            for draft in found
        ]
    found.extend(moved)
    return _with_losses(found, clause)


def _terms(clause: str) -> list[Term]:
    """The terms that a clause tells, in the order of its words."""
    bare = re.sub(r"`[^`]*`", " ", clause)
    told: list[tuple[int, Term]] = []
    hidden: set[EventKind] = set()
    for term in (*SYMPTOMS, *CAUSES, *ACTIONS, *OUTCOMES):
        if found := term.found(bare):
            told.append((found.start(), term))
            hidden |= term.hides
    told = [(start, term) for start, term in told if term.kind not in hidden]
    if not any(term.kind in _NODE_KINDS for _, term in told) and nodes(bare) and _BREAKS.search(bare):
        told.append((0, _NODE_TERM))
    return [term for _, term in sorted(told, key=lambda pair: pair[0])]


_NODE_TERM = Term(K.NODE_FAILURE, re.compile(""))
_NODE_KINDS = frozenset({K.NODE_FAILURE, K.GPU_FAILURE, K.NODE_REPLACEMENT, K.NETWORK_FAILURE})


def _from_term(term: Term, clause: str) -> Draft:
    draft = Draft(kind=term.kind)
    detail: dict[str, str] = {}
    if draft.role is Role.SYMPTOM and term.kind not in _NO_STEP:
        draft = _at_step(draft, clause)
        detail.update(draft.detail)
    if draft.role is Role.CAUSE or term.kind is K.NODE_REPLACEMENT:
        if names := nodes(clause):
            detail["node"] = ", ".join(names)
        if draft.role is Role.CAUSE and _SUSPECTED.search(clause):
            detail["certainty"] = "suspected"
    if term.kind in (K.LR_REWARM, K.DATA_MIX_RAMP):
        detail.update(changes.lengths(clause))
    if term.kind is K.LR_SCHEDULE_CHANGE:
        detail["schedule"] = "warm-up removed"
        draft = replace(draft, field="learning_rate")
    if term.kind is K.THROUGHPUT_DROP and (rate := _RATE.search(clause)):
        draft = replace(draft, field="throughput", after=number(rate["n"]), unit="TFLOPS")
    if term.kind is K.START:
        draft = replace(draft, step=0)
    return replace(draft, detail=detail)


def _at_step(draft: Draft, clause: str) -> Draft:
    for mention in positions(clause):
        ahead, behind = clause[: mention.start], clause[mention.end :]
        if _ELSEWHERE.search(ahead):
            continue
        onset = _ONSET.search(ahead) is not None or re.match(r"\s*(?:steps?)?\s*开始", behind) is not None
        approximate = _APPROXIMATE.search(ahead) or re.match(r"\s*(?:steps?\s*)?(?:左右|附近)", behind)
        detail = {"approximate": "step"} if approximate else {}
        return replace(draft, step=mention.value, onset=onset, detail=detail)
    return draft


def _with_losses(found: list[Draft], clause: str) -> list[Draft]:
    """Attach "lost 18 h" to the first thing that the clause or its neighbours tell."""
    lost_hours = hours(clause) if _LOST.search(clause) else None
    steps = _LOST_STEPS.search(clause)
    lost_steps = float((steps["n"] or steps["zh"]).replace(",", "").replace("_", "")) if steps else None
    if lost_hours is None and lost_steps is None:
        return found
    if not found:
        return [Draft(kind=K.RESTART, lost_hours=lost_hours, lost_steps=lost_steps, onset=True)]
    return [replace(found[0], lost_hours=lost_hours, lost_steps=lost_steps), *found[1:]]


_QUOTED = re.compile(
    r"^\W*(?:quot(?:e|ing)|[A-Z][\w.-]+(?: [A-Z][\w.-]+)*:\W*$)|\b(?:quoting|notes?:|to quote)\b", re.IGNORECASE
)
_MUSING = re.compile(
    r"\b(?:i (?:suspect|think|would|wonder|believe|am|don.t|also|like)|we (?:might|could|should|may|can)|let.?s see|if (?:it|we|you|this|the|one)|"
    r"suggest\w*|propos\w*|recommend\w*|my (?:feeling|suspicion|understanding)|it (?:might|could|would|may)|perhaps|maybe|would be|"
    r"one way|another (?:avenue|option|way)|try (?:larger|smaller|lower|higher)|plan (?:was|is) to|need(?:s)? to|ideally|in the future|"
    r"usually|typically|generally|in general|rule of thumb|prior work|my suspicion|can you|have you|next(?:,| step)? (?:we )?will)\b|"
    r"可以考虑|建议|如果|打算|计划",
    re.IGNORECASE,
)


def is_quoted(sentence: str) -> bool:
    """Whether a sentence announces what somebody else said."""
    return _QUOTED.search(sentence) is not None


def is_musing(sentence: str) -> bool:
    """Whether a sentence says what might be or might be done, rather than what was."""
    return _MUSING.search(sentence) is not None


def kinds(drafts: Iterable[Draft]) -> set[EventKind]:
    """The kinds among ``drafts``."""
    return {draft.kind for draft in drafts}
