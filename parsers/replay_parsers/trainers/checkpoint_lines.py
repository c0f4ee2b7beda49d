"""Lines that tell of checkpoints saved and loaded, and of training that starts, resumes and ends.

Wordings from Megatron-LM (`checkpointing.py`, `training.py`), DeepSpeed, fairseq, Hugging Face Trainer, torchtitan,
OLMo-core, Lightning and NeMo, nanoGPT and llm.c.  A checkpoint counts as saved when the trainer says that it has
been written, where it says so at all.
"""

from __future__ import annotations

import re

from replay_parsers.records import EventKind
from replay_parsers.trainers.numbers import parse_step
from replay_parsers.trainers.seen import Recogniser, Seen

_SAVED_AT_ITERATION = re.compile(
    r"successfully saved checkpoint (?:at|from) iteration {1,20}(\d{1,18})(?: to (\S{1,1000}))?"
)
_SAVED_AT_STEP = re.compile(
    r"Checkpoint for step ([\d,]{1,24}) saved successfully|[Ww]riting checkpoint at step ([\d,]{1,24})"
)
_SAVED_AT_UPDATES = re.compile(r"[Ss]aved checkpoint (\S{1,1000}) \(epoch \d{1,9} @ (\d{1,18}) updates")
_SAVED_BY_LIGHTNING = re.compile(r"global step (\d{1,18}): .{1,200}?saving model to '([^']{1,1000})'")
_SAVED_TO = re.compile(
    r"(?:Saving model checkpoint:? (?:to )?|\[Torch\] Saved |Writing model to |saving checkpoint to )(\S{1,1000})"
)
_LOADED_AT_ITERATION = re.compile(
    r"successfully loaded checkpoint from (\S{1,1000})(?: \[[^\]]{0,80}\])? at iteration {1,20}(\d{1,18})"
)
_LOADED_AT_UPDATES = re.compile(r"[Ll]oaded checkpoint (\S{1,1000}) \(epoch \d{1,9} @ (\d{1,18}) updates\)")
_LOADING_FROM = re.compile(
    r"(?:Loading the checkpoint from|Loading checkpoint from|Restoring states from the checkpoint path at"
    r"|Loading model from) {1,4}['\"]?([^\s'\"]{1,1000})"
)
_STEP_IN_PATH = re.compile(r"(?:global_step|checkpoint[-_]|iter_|step[-=_]?|model_|checkpoint_\d{1,6}_)(\d{1,18})")
_STARTS_AT = re.compile(r"Training starts at step (\d{1,18})")
_CONTINUES_AT = re.compile(r"(?:Continuing training from global|Will resume training from) step (\d(?:[\d,]{0,24}\d)?)")
_EXIT = re.compile(r"exiting program (?:at iteration (\d{1,18})|after [^\]]{1,60})")


def _step_in(path: str) -> int | None:
    numbers = _STEP_IN_PATH.findall(path)
    return int(numbers[-1]) if numbers else None


def _saved(step: int | None, path: str = "") -> Seen:
    said = "checkpoint saved" if step is None else f"checkpoint of step {step} saved"
    return Seen(EventKind.CHECKPOINT_SAVE, said, step, detail={"checkpoint": path} if path else {})


def _loaded(step: int | None, path: str) -> Seen:
    said = "checkpoint loaded" if step is None else f"checkpoint of step {step} loaded"
    return Seen(EventKind.CHECKPOINT_LOAD, said, step, detail={"checkpoint": path} if path else {})


def _save(text: str) -> Seen | None:
    if match := _SAVED_AT_ITERATION.search(text):
        return _saved(int(match[1]), match[2] or "")
    if match := _SAVED_AT_STEP.search(text):
        return _saved(parse_step(match[1] or match[2]))
    if match := _SAVED_AT_UPDATES.search(text):
        return _saved(int(match[2]), match[1])
    if match := _SAVED_BY_LIGHTNING.search(text):
        return _saved(int(match[1]), match[2])
    if match := _SAVED_TO.search(text):
        path = match[1].strip("'\".,")
        return _saved(_step_in(path), path)
    return _saved(None) if "Finished saving the checkpoint" in text else None


def _load(text: str) -> Seen | None:
    if match := _LOADED_AT_ITERATION.search(text):
        return _loaded(int(match[2]), match[1])
    if match := _LOADED_AT_UPDATES.search(text):
        return _loaded(int(match[2]), match[1])
    if match := _LOADING_FROM.search(text):
        path = match[1].rstrip(".,")
        step = _step_in(path)
        return None if step is None else _loaded(step, path)
    return None


def _begin(text: str) -> Seen | None:
    if match := _CONTINUES_AT.search(text):
        step = parse_step(match[1])
        return None if step is None else Seen(EventKind.RESTART, f"training resumes from step {step}", step)
    if match := _STARTS_AT.search(text):
        first = int(match[1])
        if first > 1:
            return Seen(EventKind.RESTART, f"training resumes at step {first}", first - 1)
        return Seen(EventKind.START, "training starts", 0)
    return Seen(EventKind.START, "no checkpoint was found: training starts at step 0", 0)


def _end(text: str) -> Seen | None:
    if "Trainer.fit" in text:
        return Seen(EventKind.END, "training is done") if "max_" in text and "reached" in text else None
    if match := _EXIT.search(text):
        return Seen(EventKind.END, "the program was told to stop here", int(match[1]) if match[1] else None)
    return Seen(EventKind.END, "training is done") if "exiting program" not in text else None


RECOGNISERS: tuple[Recogniser, ...] = (
    ("successfully saved checkpoint", _save),
    ("aved checkpoint ", _save),
    ("Checkpoint for step", _save),
    ("riting checkpoint at step", _save),
    ("saving model to '", _save),
    ("Saving model checkpoint", _save),
    ("[Torch] Saved ", _save),
    ("Writing model to ", _save),
    ("saving checkpoint to ", _save),
    ("Finished saving the checkpoint", _save),
    ("oaded checkpoint ", _load),
    ("Loading the checkpoint from", _load),
    ("Loading checkpoint from", _load),
    ("Restoring states from the checkpoint path", _load),
    ("Loading model from", _load),
    ("will start from random", _begin),
    ("Training starts at step", _begin),
    ("Continuing training from global step", _begin),
    ("Will resume training from step", _begin),
    ("after training is done", _end),
    ("exiting program ", _end),
    ("done training in ", _end),
    ("Training completed", _end),
    ("Trainer.fit` stopped", _end),
)
