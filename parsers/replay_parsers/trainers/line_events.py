"""Lines of a trainer log that tell of an event rather than of measured values, whatever the trainer.

DeepSpeed's overflow lines stand in Megatron logs, CUDA errors in all of them: every dialect shares these
recognisers.  Each looks for a few fixed words and then reads the line with a pattern that cannot backtrack.
Wordings are those of the programs' own sources (Megatron-LM `checkpointing.py` and `training.py`, DeepSpeed
`loss_scaler.py`, `fused_optimizer.py`, `stage_1_and_2.py`, fairseq `dynamic_loss_scaler.py`, PyTorch
`ProcessGroupNCCL.cpp`, Slurm).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from replay_parsers.records import EventKind
from replay_parsers.trainers.numbers import parse_number, parse_step

LOOKED_AT = 2_000
"""So many characters of a line are searched for events: summaries run to hundreds of kilobytes."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one line says happened.

    ``step`` is the step that the line itself names, None when it names none.  ``rank`` is the rank that says so
    (DeepSpeed numbers its overflow lines).  ``same`` is equal for lines that tell of one thing.
    """

    kind: EventKind
    text: str
    step: int | None = None
    field: str | None = None
    before: float | None = None
    after: float | None = None
    detail: dict[str, str] = dataclass_field(default_factory=dict)
    rank: str = ""
    same: str = ""


_NUMBER = r"([0-9.eE+-]{1,32}|inf|nan)"
_ATTEMPTED = re.compile(
    rf"Attempted loss scale: {_NUMBER}(?:,\s{{0,4}}(?:reducing to {_NUMBER}|but hysteresis is (\d{{1,9}})\. Reducing "
    r"hysteresis to (\d{1,9})))?"
)
_OVERFLOW_RANK = re.compile(r"Rank:? (\d{1,9})")
_SET_SCALE = re.compile(rf"overflow detected,.{{0,40}}?setting loss scale to: {_NUMBER}")
_APEX = re.compile(rf"Gradient overflow\. {{1,4}}Skipping step,.{{0,40}}?reducing loss scale to {_NUMBER}")
_MINIMUM = re.compile(rf"Minimum loss scale reached \({_NUMBER}\)")
_LR_FACTOR = re.compile(rf"[Ss]caling LR by(?: a factor of)?:? {_NUMBER}")

_SAVED = re.compile(r"successfully saved checkpoint (?:at|from) iteration {1,20}(\d{1,18})(?: to (\S{1,1000}))?")
_LOADED = re.compile(
    r"successfully loaded checkpoint from (\S{1,1000})(?: \[[^\]]{0,80}\])? at iteration {1,20}(\d{1,18})"
)
_SHARD_SAVED = re.compile(r"(?:Saving model checkpoint:? (?:to )?|\[Torch\] Saved )(\S{1,1000})")
_STEP_IN_PATH = re.compile(r"(?:global_step|checkpoint-|checkpoint_\d{1,6}_|iter_|step-?)(\d{1,18})")
_FAIRSEQ_SAVED = re.compile(r"[Ss]aved checkpoint (\S{1,1000}) \(epoch (\d{1,9}) @ (\d{1,18}) updates")
_FAIRSEQ_LOADED = re.compile(r"[Ll]oaded checkpoint (\S{1,1000}) \(epoch (\d{1,9}) @ (\d{1,18}) updates\)")
_EXIT = re.compile(r"exiting program (?:at iteration (\d{1,18})|after [^\]]{1,60})")
_NODE = re.compile(r"(?:[Nn]ode failure on|error:|DUE TO NODE FAILURE.{0,40}?) {1,4}([A-Za-z][\w.-]{1,80}):?")
_CANCELLED = re.compile(r"\*\*\* (?:STEP|JOB) \S{1,40} ON (\S{1,80}) CANCELLED AT \S{1,40}(?: DUE TO ([A-Z ]{1,40}))?")
_TASK_EXIT = re.compile(
    r"srun: error: ([\w.\[\],-]{1,200}): tasks? [\d,-]{1,200}: (Exited with exit code \d{1,4}|[A-Z][a-z ]{1,40})"
)
_XID = re.compile(r"Xid \(([^)]{1,60})\): (\d{1,4})")


def _overflow(text: str) -> Seen | None:
    match = _ATTEMPTED.search(text)
    rank = _OVERFLOW_RANK.search(text, max(0, text.lower().find("overflow")))
    who = rank[1] if rank else ""
    if match is None:
        return Seen(EventKind.OVERFLOW_SKIP, "gradients overflowed and the step was skipped", rank=who, same="overflow")
    attempted = parse_number(match[1])
    if match[3]:
        detail = {"hysteresis_before": match[3], "hysteresis_after": match[4]}
        said = f"gradients overflowed at loss scale {match[1]}; hysteresis keeps the scale"
        return Seen(
            EventKind.OVERFLOW_SKIP,
            said,
            None,
            "loss_scale",
            attempted,
            attempted,
            detail,
            who,
            f"{match[1]} held {match[3]}",
        )
    reduced = parse_number(match[2]) if match[2] else None
    said = f"gradients overflowed at loss scale {match[1]}" + (f"; it goes to {match[2]}" if match[2] else "")
    same = f"{match[1]} to {match[2]}"
    return Seen(EventKind.OVERFLOW_SKIP, said, None, "loss_scale", attempted, reduced, {}, who, same)


def _overflow_setting_scale(text: str) -> Seen | None:
    match = _SET_SCALE.search(text) or _APEX.search(text)
    if match is None:
        return None
    said = f"gradients overflowed and were left out; the loss scale goes to {match[1]}"
    return Seen(EventKind.OVERFLOW_SKIP, said, None, "loss_scale", None, parse_number(match[1]), same=f"to {match[1]}")


def _scale_floor(text: str) -> Seen | None:
    match = _MINIMUM.search(text)
    after = parse_number(match[1]) if match else None
    return Seen(
        EventKind.LOSS_SCALE_FLOOR,
        "the loss scale cannot go lower: the trainer gives up",
        None,
        "loss_scale",
        None,
        after,
    )


def _lr_factor(text: str) -> Seen | None:
    match = _LR_FACTOR.search(text)
    factor = parse_number(match[1]) if match else None
    if match is None or factor is None:
        return None
    said = f"the trainer scales the learning rate by {match[1]}"
    return Seen(EventKind.LR_CHANGE, said, None, "learning_rate", detail={"factor": match[1]}, same=match[1])


def _checkpoint_saved(text: str) -> Seen | None:
    for pattern in (_SAVED, _FAIRSEQ_SAVED, _SHARD_SAVED):
        match = pattern.search(text)
        if match is None:
            continue
        if pattern is _SAVED:
            path, step = match[2] or "", int(match[1])
        elif pattern is _FAIRSEQ_SAVED:
            path, step = match[1], int(match[3])
        else:
            path = match[1].rstrip(".,")
            numbers = _STEP_IN_PATH.findall(path)
            if not numbers:
                return None
            step = int(numbers[-1])
        detail = {"checkpoint": path} if path else {}
        return Seen(EventKind.CHECKPOINT_SAVE, f"checkpoint of step {step} saved", step, detail=detail)
    return None


def _checkpoint_loaded(text: str) -> Seen | None:
    match = _LOADED.search(text)
    path, printed = (match[1], match[2]) if match else ("", "")
    if match is None:
        match = _FAIRSEQ_LOADED.search(text)
        path, printed = (match[1], match[3]) if match else ("", "")
    step = parse_step(printed) if match else None
    if step is None:
        return None
    return Seen(EventKind.CHECKPOINT_LOAD, f"checkpoint of step {step} loaded", step, detail={"checkpoint": path})


def _started(_: str) -> Seen:
    return Seen(EventKind.START, "no checkpoint was found: training starts at step 0", 0)


def _ended(text: str) -> Seen | None:
    if "after training is done" in text:
        return Seen(EventKind.END, "training is done")
    match = _EXIT.search(text)
    if match is None:
        return None
    return Seen(EventKind.END, "the program was told to stop here", int(match[1]) if match[1] else None)


def _cuda(text: str) -> Seen:
    if "ECC" in text or "fallen off the bus" in text or "unspecified launch failure" in text:
        return Seen(EventKind.GPU_FAILURE, "a GPU reported a hardware error", detail={"error": _said(text, "CUDA")})
    if "out of memory" in text or "OutOfMemory" in text:
        return Seen(EventKind.MEMORY_ERROR, "GPU memory ran out", detail={"error": _said(text, "CUDA")})
    return Seen(EventKind.CRASH, "a CUDA call failed", detail={"error": _said(text, "CUDA")})


def _xid(text: str) -> Seen | None:
    match = _XID.search(text)
    if match is None:
        return None
    return Seen(
        EventKind.GPU_FAILURE, f"the driver reported Xid {match[2]}", detail={"xid": match[2], "device": match[1]}
    )


def _nccl(text: str) -> Seen:
    said = _said(text, "NCCL") or _said(text, "nccl")
    if "timeout" in text or "timed out" in text:
        return Seen(EventKind.HANG, "a collective operation timed out", detail={"error": said})
    return Seen(EventKind.NETWORK_FAILURE, "NCCL reported a failed communication", detail={"error": said})


def _scheduler(text: str) -> Seen | None:
    if match := _CANCELLED.search(text):
        why = (match[2] or "").strip().lower()
        kind = EventKind.NODE_FAILURE if "node" in why else EventKind.END
        detail = {"node": match[1], **({"reason": why} if why else {})}
        return Seen(kind, f"the scheduler ended the job{f' ({why})' if why else ''}", detail=detail)
    if match := _TASK_EXIT.search(text):
        return Seen(EventKind.CRASH, f"a task ended: {match[2].lower()}", detail={"node": match[1], "error": match[2]})
    if "ode failure" in text and (match := _NODE.search(text)):
        return Seen(EventKind.NODE_FAILURE, f"node {match[1]} failed", detail={"node": match[1]})
    return None


def _said(text: str, word: str) -> str:
    """What the line says from ``word`` on, short enough for a table."""
    at = text.find(word)
    return text[at : at + 160].strip() if at >= 0 else ""


_RECOGNISERS: tuple[tuple[str, Callable[[str], Seen | None]], ...] = (
    ("Attempted loss scale", _overflow),
    ("OVERFLOW! ", _overflow),
    ("overflow detected, ", _overflow_setting_scale),
    ("Gradient overflow.", _overflow_setting_scale),
    ("Minimum loss scale reached", _scale_floor),
    ("loss scale already at minimum", _scale_floor),
    ("caling LR by", _lr_factor),
    ("successfully saved checkpoint", _checkpoint_saved),
    ("aved checkpoint ", _checkpoint_saved),
    ("Saving model checkpoint", _checkpoint_saved),
    ("[Torch] Saved ", _checkpoint_saved),
    ("oaded checkpoint ", _checkpoint_loaded),
    ("will start from random", _started),
    ("after training is done", _ended),
    ("exiting program ", _ended),
    ("CUDA error: ", _cuda),
    ("CUDA out of memory", _cuda),
    ("OutOfMemoryError", _cuda),
    ("NVRM: Xid", _xid),
    ("Watchdog caught collective operation timeout", _nccl),
    ("NCCL error", _nccl),
    ("ncclSystemError", _nccl),
    ("ncclRemoteError", _nccl),
    ("ncclInternalError", _nccl),
    ("slurmstepd: error: ***", _scheduler),
    ("srun: error: ", _scheduler),
    ("ode failure", _scheduler),
)

_ANY = re.compile("|".join(re.escape(words) for words, _ in _RECOGNISERS))

_KNOWN_NOISE = re.compile(
    r"it/s\]|s/it\]|\d%\|"  # progress bars
    r"|^\s{0,8}(?:time|rank|max time across ranks|\(min, max\) time across ranks) ?\(ms\)"  # Megatron's timers
    r"|^\s{0,8}-{10,}\s{0,8}$|^\s{0,8}={10,}\s{0,8}$"
    r"|dynamic loss scale from|Grad overflow on iteration|saving checkpoint at iteration"
)


def recognise(text: str) -> Seen | None:
    """What event a line tells of; None when it tells of none.

    >>> recognise("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768").after
    32768.0
    """
    text = text[:LOOKED_AT]
    found = _ANY.search(text)
    while found is not None:
        for words, read in _RECOGNISERS:
            if words == found[0] and (seen := read(text)) is not None:
                return seen
        found = _ANY.search(text, found.end())
    return None


def is_noise(text: str) -> bool:
    """Whether a line is known to say nothing that replay keeps: timers, rules, progress bars."""
    return _KNOWN_NOISE.search(text, 0, 400) is not None or _KNOWN_NOISE.search(text[-120:]) is not None
