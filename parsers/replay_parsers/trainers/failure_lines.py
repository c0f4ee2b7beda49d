"""Lines that tell of what failed: GPUs, memory, the network, nodes, jobs.

Wordings from PyTorch (`CUDAException`, `ProcessGroupNCCL.cpp`), NCCL, NVIDIA's driver, Slurm and torchrun.
"""

from __future__ import annotations

import re

from replay_parsers.records import EventKind
from replay_parsers.trainers.seen import Recogniser, Seen

_NODE_FAILED = re.compile(r"[Nn]ode failure on {1,4}([\w.-]{1,80})")
_CANCELLED = re.compile(r"\*\*\* (?:STEP|JOB) \S{1,40} ON (\S{1,80}) CANCELLED AT \S{1,40}(?: DUE TO ([A-Z ]{1,40}))?")
_TASK_ENDED = re.compile(
    r"srun: error: ([\w.\[\],-]{1,200}): tasks? [\d,-]{1,200}: (Exited with exit code \d{1,4}|[A-Z][a-z ]{1,40})"
)
_XID = re.compile(r"Xid \(([^)]{1,60})\): (\d{1,4})")
_HOST = re.compile(r"^\s{1,8}host {1,12}: {1,4}(\S{1,80})\s{0,8}$")
_SHOWN = 160


def _said(text: str, word: str) -> dict[str, str]:
    """What the line says from ``word`` on, short enough for a table."""
    at = text.find(word)
    return {"error": text[max(at, 0) : max(at, 0) + _SHOWN].strip()}


def _cuda(text: str) -> Seen:
    detail = _said(text, "CUDA")
    if "ECC" in text or "fallen off the bus" in text:
        return Seen(EventKind.GPU_FAILURE, "a GPU reported a hardware error", detail=detail)
    if "out of memory" in text or "OutOfMemory" in text:
        return Seen(EventKind.MEMORY_ERROR, "GPU memory ran out", detail=detail)
    return Seen(EventKind.CRASH, "a CUDA call failed", detail=detail)


def _xid(text: str) -> Seen | None:
    match = _XID.search(text)
    if match is None:
        return None
    detail = {"xid": match[2], "device": match[1]}
    return Seen(EventKind.GPU_FAILURE, f"the driver reported Xid {match[2]}", detail=detail)


def _nccl(text: str) -> Seen:
    detail = _said(text, "NCCL" if "NCCL" in text else "nccl")
    if "timeout" in text or "timed out" in text:
        return Seen(EventKind.HANG, "a collective operation timed out", detail=detail)
    return Seen(EventKind.NETWORK_FAILURE, "NCCL reported a failed communication", detail=detail)


def _scheduler(text: str) -> Seen | None:
    if match := _CANCELLED.search(text):
        why = (match[2] or "").strip().lower()
        kind = EventKind.NODE_FAILURE if "node" in why else EventKind.END
        detail = {"node": match[1], **({"reason": why} if why else {})}
        return Seen(kind, f"the scheduler ended the job{f' ({why})' if why else ''}", detail=detail)
    if match := _TASK_ENDED.search(text):
        detail = {"node": match[1], "error": match[2]}
        return Seen(EventKind.CRASH, f"a task ended: {match[2].lower()}", detail=detail)
    if match := _NODE_FAILED.search(text):
        return Seen(EventKind.NODE_FAILURE, f"node {match[1]} failed", detail={"node": match[1]})
    return None


def _torchrun_host(text: str) -> Seen | None:
    """torchrun's summary of a failure names the host on a line of its own."""
    match = _HOST.search(text)
    if match is None:
        return None
    return Seen(EventKind.CRASH, f"a process on {match[1]} failed", detail={"node": match[1]})


def _host_memory(text: str) -> Seen:
    return Seen(EventKind.MEMORY_ERROR, "the host's memory ran out", detail=_said(text, "oom"))


RECOGNISERS: tuple[Recogniser, ...] = (
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
    ("ode failure on", _scheduler),
    ("oom-kill", _host_memory),
    ("host      :", _torchrun_host),
)
