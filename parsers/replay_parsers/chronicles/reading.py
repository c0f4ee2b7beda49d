"""From a sentence to what it says happened."""

from __future__ import annotations

import re
from dataclasses import replace

from replay_parsers.chronicles import changes, comparisons, effective, moves, options
from replay_parsers.chronicles.clauses import clauses
from replay_parsers.chronicles.drafts import Draft, absorb
from replay_parsers.chronicles.losses import with_losses
from replay_parsers.chronicles.mood import Told, told
from replay_parsers.chronicles.musing import finds_out, is_condition, is_musing, sums_up
from replay_parsers.chronicles.numbers import number
from replay_parsers.chronicles.phrases import Flag, flags, nodes, positions
from replay_parsers.chronicles.times_of_day import without_times
from replay_parsers.chronicles.words import ACTIONS, CAUSES, OUTCOMES, SYMPTOMS, Term
from replay_parsers.records import EventKind, Role

K = EventKind
_I = re.IGNORECASE

_ELSEWHERE = re.compile(
    r"\b(?:as it is|as it was|same as|like|than|similar to|as)\s(?:it\s\w+\s)?(?:in|at|around)?\s?$"
    r"|\b(?:same as|just like|similar to)\s(?:the\s)?\w{1,20}\s(?:at|around|of)\s?$|[和与]\s?$",
    _I,
)
# "Restarted from 4000 after a crash": the crash was elsewhere.
_GONE_ON_FROM = re.compile(
    r"\b(?:re-?start|resum|re-?launch|roll|re-?w[io]\w{0,2}nd|revert|re-?load|back)\w*\b[^,;]{0,30}?(?:\bfrom\b|"
    r"\bto\b|@)"
    r"\s?(?:the\s)?(?:(?:global[ _]?)?(?:step|iteration|checkpoint|ckpt)\s)?$",
    _I,
)
_APPROXIMATE = re.compile(
    r"(?:\b(?:around|about|near|roughly|approx\w*|somewhere|till)\s|~\s?)(?:(?:global[ _]?)?(?:step|"
    r"iteration)\s)?$|大约\s?$",
    _I,
)
_ONSET = re.compile(r"(?:\bfrom\b|\bsince\b|从)\s?(?:(?:global[ _]?)?(?:step|iteration)\s)?$", _I)
_SUSPECTED = re.compile(
    r"\b(?:suspect\w*|probabl[ey]|perhaps|maybe|might|may be|possibly|likely)\b|怀疑|推测|可能|疑似", _I
)
_BREAKS = re.compile(
    r"\b(?:breaks?|broke|broken|fail\w*|died?|dies|crash\w*|down|dead|lost|loses|disconnect\w*|"
    r"unreachable|gone)\b|挂了|坏|故障|失联|掉",
    _I,
)
# Runs numbered within a lineage: "experiment 3.10", "run 4.5.2".
_RUN_NUMBER = re.compile(r"\b(?:experiment|run|exp)\s(?P<run>\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\b", _I)
_VERSION = re.compile(
    r"\b(?P<software>megatron\w*|deepspeed|pytorch|torch|cuda|nccl|apex|"
    r"transformers)\b.{0,30}?\b(?:to v?(?P<b>\d+\.\d+)\b.{0,3}\bfrom v?(?P<a>\d+\.\d+)|"
    r"from v?(?P<a2>\d+\.\d+)(?:\.\d+)? to v?(?P<b2>\d+\.\d+))",
    _I,
)
_RATE = re.compile(r"(?P<n>\d{1,6}(?:\.\d{1,4})?)\s?T(?:FLOPs?)?\b", _I)
_ARROW = re.compile(r"→|->|=>|\bto\b|改为|改成")
_ASSIGNED_HERE = re.compile(r"(?:\bto|\bset|\bof|\busing|\btry|\bset to|^\W*with)\s{0,2}`?\s{0,2}$", _I)
# What a kind must name, and the names it may have; of "from Adam to SGD" the last.
_NAMED = {
    K.OPTIMIZER_SWAP: ("optimizer", re.compile(r"8-bit adam|\b(?:sgd|adamw?|adafactor|lion|muon|shampoo|lamb)\b", _I)),
    K.ACTIVATION_CHANGE: ("activation", re.compile(r"\b(?:relu|gelu|swiglu|geglu|silu)\b", _I)),
    K.PRECISION_CHANGE: ("precision", re.compile(r"bf16|bfloat16|fp32|fp16|fp8|float32", _I)),
}
_MEASURED = {
    K.LOSS_SPIKE: "loss",
    K.LOSS_EXPLOSION: "loss",
    K.DIVERGENCE: "loss",
    K.GRAD_NORM_SPIKE: "grad_norm",
}
_PEAK = re.compile(
    r"\b(?:spike[ds]?|jump(?:ed|s)?|rose|went|shot|exploded|surged|up|peak(?:ed|ing|s)?|climbed) (?:up )?(?:to|at|"
    r"of) (?:about |~ ?)?(?P<n>\d{1,9}\.\d{1,9}|\d{1,2}(?![\d,.k]))(?!\s?(?:k\b|%|steps?|iter))",
    _I,
)
# Where each entry is no launch of its own, "training goes on" starts nothing anew.
_GOES_ON = re.compile(r"\W*(?:并|就|先|仍)?继续(?:训练|跑|运行)\W*")
_OF_MACHINES = frozenset({K.CHECKPOINT_INTERVAL_CHANGE, K.TOPOLOGY_CHANGE, K.ROLLBACK})
_NO_STEP = frozenset({K.THROUGHPUT_DROP})
_STEP_TOO = frozenset({K.ABANDONED, K.END, *(term.kind for term in CAUSES)}) - {K.CONFIG_BUG, K.DATA_DEFECT}
_NODE_KINDS = frozenset({K.NODE_FAILURE, K.GPU_FAILURE, K.NODE_REPLACEMENT, K.NETWORK_FAILURE})
_CAUSE_KINDS = _NODE_KINDS | {term.kind for term in CAUSES}
_TAKEN_OUT = re.compile(r"\b(?:excluded|removed|swapped|drained|cordoned|blacklisted|isolated)\b|剔除|踢出", _I)
_REPLACED_TERM = Term(K.NODE_REPLACEMENT, re.compile(""))
_NODE_TERM = Term(K.NODE_FAILURE, re.compile(""))
# "There is no evidence of a bad node."
_NO_SIGN = re.compile(
    r"\b(?:no|without|any) (?:\w+ )?(?:evidence|signs?|indications?|traces?|hints?) (?:of|that|for)\b|"
    r"没有(?:任何)?(?:证据|迹象)",
    _I,
)
_OBSERVED = (*SYMPTOMS, *CAUSES)


def read_sentence(
    sentence: str,
    *,
    line: int,
    heading: bool = False,
    careful: bool = False,
    planned: bool = False,
    relaunches: bool = True,
    own: str = "",
) -> list[Draft]:
    """Everything a sentence says happened.  An empty list means that it was not understood.

    ``careful`` is for books that discuss much: settings are changed only where a verb says so.  ``planned``
    says that the sentence stands among plans, ``relaunches`` that a setting which holds "from step N" was set by
    starting anew from there; ``own`` is the book's title, by which models of others are told from its
    own.
    """
    found: list[Draft] = []
    printed, sentence = sentence, without_times(sentence)
    if careful and (is_condition(sentence) or sums_up(sentence)):
        return found
    for part in told(clauses(sentence), sentence, heading=heading, announced=careful, planned=planned, own=own):
        if careful and is_musing(part.clause) and not finds_out(part.clause):
            continue
        careful_here = careful and not heading
        read = _read_clause(part, sentence, careful=careful_here, heading=heading, relaunches=relaunches)
        if careful and _AT_LAST.match(part.clause) and _has_deed(read) and _has_deed(found):
            found.append(Draft(kind=K.RECURRED))  # what was done before had not helped
        found.extend(read)
    if any(draft.kind is K.START for draft in found):
        # With what a run began was not changed.
        found = [draft for draft in found if not (draft.field and draft.before is None and draft.after is not None)]
    found = effective.with_shared_step(absorb(found), sentence)
    quote = printed if len(printed) <= 300 else printed[:297] + "..."
    return [replace(draft, line=line, quote=quote, heading=heading) for draft in found]


# "We lowered the rate, then again, until finally we swapped the optimizer."
_AT_LAST = re.compile(r"\W*until (?:we |they )?(?:finally|eventually|at last|in the end)\b", _I)


def _has_deed(drafts: list[Draft]) -> bool:
    return any(draft.role is Role.INTERVENTION for draft in drafts)


def tells_something(heading: str) -> bool:
    """Whether a heading itself tells of a trouble or a change ("A large loss spike", "NNODES=64")."""
    return any(draft.role is not Role.OUTCOME for draft in read_sentence(heading, line=0, heading=True))


def _read_clause(part: Told, sentence: str, *, careful: bool, heading: bool, relaunches: bool) -> list[Draft]:
    found = [_from_term(term, part.clause) for term in _terms(part)]
    clause = part.done
    symptom = any(draft.role is Role.SYMPTOM for draft in found)
    # "The loss scale drops" is seen, not done: without values it is no change of a setting.
    found.extend(
        change
        for change in changes.from_prose(part.clause if changes.mends(sentence) else clause, sentence, careful=careful)
        if not symptom or (change.field != "loss_scale" and (change.after is not None or "factor" in change.detail))
    )
    if careful and not any(draft.field for draft in found):
        found.extend(comparisons.with_another_run(part.clause))
    named = [flag for flag in flags(clause) if not flag.assigned or heading or _is_set(flag, clause)]
    for place, flag in enumerate(named):
        following = named[place + 1] if place + 1 < len(named) else None
        if following and following.name == flag.name and _ARROW.search(clause[flag.start : following.start]):
            continue  # the old value of a pair: "`--clip-grad 1.0` -> `--clip-grad 0.3`"
        before = _value_before(flag, named[place - 1] if place else None, clause)
        found.extend(replace(draft, before=before) if draft.field else draft for draft in options.from_flag(flag))
    found.extend(moves.skips(clause, sentence))
    moved = moves.restarts(clause)
    if any(draft.kind in (K.RESTART_FROM_SCRATCH, K.START) for draft in found) or (
        not relaunches and _GOES_ON.fullmatch(clause)
    ):
        moved = []
    acts = [draft for draft in found if draft.role is Role.INTERVENTION and draft.kind is not K.SKIP_BATCHES]
    if acts and effective.only_holds(clause):
        moved = []
    values = {value for draft in found for value in (draft.before, draft.after) if value is not None}
    loaded = effective.effective_step(clause, loaded=True, values=values)
    if not moved and loaded is not None and acts and not symptom and relaunches:
        # A setting takes effect only when training is started anew, so "from N step" names the checkpoint.
        moved = [Draft(kind=K.RESTART, step=loaded)]
    step = effective.effective_step(clause, values=values)
    if step is not None:
        found = [
            replace(draft, step=step)
            if draft in acts and draft.step is None and draft.kind not in _OF_MACHINES
            else draft
            for draft in found
        ]
    found.extend(moved)
    if run := _RUN_NUMBER.search(clause):
        found = [replace(draft, detail={"run_name": run["run"], **draft.detail}) for draft in found]
    return with_losses(found, part, sentence)


def _value_before(flag: Flag, previous: Flag | None, clause: str) -> float | None:
    """The value before in "from MBS=2 to MBS=4" and in "`--lr 3e-4` -> `--lr 1e-4`"."""
    if (
        previous
        and previous.name == flag.name
        and previous.values
        and _ARROW.search(clause[previous.start : flag.start])
    ):
        return number(previous.values[0])
    earlier = (
        re.search(rf"\bfrom\s{{0,2}}`?{re.escape(flag.name)}=(?P<a>[\w.-]{{1,20}})", clause) if flag.assigned else None
    )
    return number(earlier["a"]) if earlier else None


def _is_set(flag: Flag, clause: str) -> bool:
    """Whether an assignment within prose sets something ("Switched to `SAVE_INTERVAL=150`") or only recalls it."""
    return _ASSIGNED_HERE.search(clause[: flag.start]) is not None or str(flag) == clause.strip(" `.,;")


def _terms(part: Told) -> list[Term]:
    """The terms that a clause tells, in the order of its words."""
    done, seen, came, all_of_it = (_bare(text) for text in (part.done, part.seen, part.came, part.clause))
    if _NO_SIGN.search(all_of_it):
        seen = ""
    told: list[tuple[int, Term]] = []
    hidden: set[EventKind] = set()
    for text, terms in ((seen, _OBSERVED), (done, ACTIONS), (came, OUTCOMES)):
        for term in terms:
            # That nothing was done is said by what takes deeds away.
            if found := term.found(all_of_it if term.kind is K.WAIT and (done or seen) else text):
                told.append((found.start(), term))
                hidden |= term.hides
    told = [(start, term) for start, term in told if term.kind not in hidden]
    if not any(term.kind in _CAUSE_KINDS for _, term in told) and nodes(seen) and _BREAKS.search(seen):
        told.append((0, _NODE_TERM))
    if not any(term.kind is K.NODE_REPLACEMENT for _, term in told) and nodes(done) and _TAKEN_OUT.search(done):
        told.append((len(done), _REPLACED_TERM))
    # "Recovered from two failures": what came of a trouble stands behind it.
    return [term for _, term in sorted(told, key=lambda pair: (pair[1] in OUTCOMES, pair[0]))]


def _bare(clause: str) -> str:
    # Of code spans only plain words and values are prose: "`loss=nan`", but not the name of an option or a file.
    return re.sub(
        r"`([^`]*)`", lambda span: f" {span[1]} " if re.fullmatch(r"[a-z]+[ =:]+[\w.]+", span[1]) else " ", clause
    )


def _from_term(term: Term, clause: str) -> Draft:
    draft = Draft(kind=term.kind)
    detail: dict[str, str] = {}
    if (draft.role is Role.SYMPTOM and term.kind not in _NO_STEP) or term.kind in _STEP_TOO:
        draft = _at_step(draft, clause)
        detail.update(draft.detail)
    if draft.role is Role.CAUSE or term.kind is K.NODE_REPLACEMENT:
        if names := nodes(clause):
            detail["node"] = ", ".join(names)
        if draft.role is Role.CAUSE and _SUSPECTED.search(clause):
            detail["certainty"] = "suspected"
    if term.kind in (K.LR_REWARM, K.DATA_MIX_RAMP):
        detail.update(effective.lengths(clause))
    if term.kind is K.LR_SCHEDULE_CHANGE:
        detail["schedule"] = "warm-up removed"
        draft = replace(draft, field="learning_rate")
    if term.kind is K.THROUGHPUT_DROP and (rate := _RATE.search(clause)):
        fell = changes.FROM_TO.search(clause)
        before = number(fell["a"]) if fell else None
        draft = replace(draft, field="throughput", before=before, after=number(rate["n"]), unit="TFLOPS")
    if (measured := _MEASURED.get(term.kind)) is not None:
        draft = _with_rise(draft, measured, clause)
    if (named := _NAMED.get(term.kind)) and (names := named[1].findall(clause)):
        # "bf16 instead of fp16", but "from fp16 to bf16".
        detail[named[0]] = names[0] if re.search(r"\b(?:instead of|rather than)\b|而不是", clause) else names[-1]
    if term.kind is K.SOFTWARE_CHANGE and (version := _VERSION.search(clause)):
        values = number(version["a"] or version["a2"]), number(version["b"] or version["b2"])
        draft = replace(draft, field="version", before=values[0], after=values[1])
        detail["software"] = version["software"]
    if term.kind is K.START:
        draft = replace(draft, step=0)
    return replace(draft, detail=detail)


def _with_rise(draft: Draft, field: str, clause: str) -> Draft:
    """``draft`` with the values of a rise: "from 3.1 to 8.9", "(2.31 -> 4.9)", "spiked to 14.2"."""
    taken = {mention.value for mention in positions(clause)}
    for found in changes.FROM_TO.finditer(clause):
        before, after = number(found["a"]), number(found["b"])
        if before is not None and after is not None and before < after and not {before, after} & taken:
            return replace(draft, field=field, before=before, after=after)
    if (peak := _PEAK.search(clause)) and (value := number(peak["n"])) not in taken:
        return replace(draft, field=field, after=value)
    return draft


def _at_step(draft: Draft, clause: str) -> Draft:
    for mention in positions(clause):
        ahead, behind = clause[: mention.start], clause[mention.end :]
        if _ELSEWHERE.search(ahead) or _GONE_ON_FROM.search(ahead):
            continue
        onset = _ONSET.search(ahead) is not None or re.match(r"\s?(?:steps?)?\s?开始", behind) is not None
        approximate = _APPROXIMATE.search(ahead) or re.match(r"\s?(?:steps?\s?)?(?:左右|附近)", behind)
        detail = {"approximate": "step"} if approximate else {}
        return replace(draft, step=mention.value, onset=onset, detail=detail)
    return draft
