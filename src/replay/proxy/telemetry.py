"""What a step shows of itself, and the logs it is written to: TensorBoard event files, Megatron-style text.

The proxy logs as any trainer does, so that the same parsers, rules and reports read its runs. With the same clock the
same run writes the same bytes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

Clock = Callable[[], float]
"""Seconds since 1970, as time.time gives them; tests and reproducible demonstrations pass their own."""


class EventFileLog:
    """Writes a TensorBoard event file into a folder, a new one each time it is opened (as trainers do on a restart).

    ``prefix`` stands before each signal's name in its tag: ``train/loss``. ``flush_every`` steps the file is flushed.
    """

    def __init__(
        self, folder: str | Path, *, clock: Clock = time.time, prefix: str = "train/", flush_every: int = 20
    ) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._clock, self._prefix, self._flush_every = clock, prefix, flush_every
        started = clock()
        number = 0
        while (path := folder / f"events.out.tfevents.{int(started):010d}.proxy.{number}").exists():
            number += 1
        self.path = path
        self._file = path.open("xb")
        # TensorBoard's own messages and framing, but not its writer: that stamps the current time and names the host.
        self._records = RecordWriter(self._file)
        self._records.write(Event(wall_time=started, file_version="brain.Event:2").SerializeToString())
        self._file.flush()
        self._written = 0

    def log(self, step: int, signals: Mapping[str, float]) -> None:
        """Write the signals of one step."""
        values = [Summary.Value(tag=self._prefix + name, simple_value=value) for name, value in signals.items()]
        event = Event(wall_time=self._clock(), step=step, summary=Summary(value=values))
        self._records.write(event.SerializeToString())
        self._written += 1
        if self._written % self._flush_every == 0:
            self._file.flush()

    def settle(self) -> None:
        """Flush to the disk: what was logged so far outlives a kill of the process."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush to the disk and close."""
        if not self._file.closed:
            self.settle()
            self._file.close()

    def __enter__(self) -> EventFileLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class MegatronLog:
    """Appends one line a step to a text file, with the fields and separators of Megatron-LM's training log.

    As there, a step that made no update counts as a skipped iteration and has no loss field, nor has one whose loss is
    not finite, which counts as a nan iteration; of a step that was walked over on order there is no line at all.
    """

    def __init__(self, path: str | Path, *, steps: int, clock: Clock = time.time) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")
        self._steps, self._clock, self._last = steps, clock, clock()

    def log(self, step: int, signals: Mapping[str, float]) -> None:
        """Write the line of one step, if it learned from anything."""
        now = self._clock()
        milliseconds, self._last = (now - self._last) * 1000.0, now
        if "loss" not in signals:
            return
        loss, skipped = signals["loss"], int(signals.get("skipped_steps", 0))
        fields = [
            f" iteration {step:8d}/{self._steps:8d} ",
            f" consumed samples: {int(signals.get('samples', 0)):12d} ",
            f" elapsed time per iteration (ms): {milliseconds:.1f} ",
            f" learning rate: {signals.get('learning_rate', 0.0):.3E} ",
            f" global batch size: {int(signals.get('batch_size', 0)):5d} ",
        ]
        if math.isfinite(loss) and not skipped:
            fields.append(f" lm loss: {loss:.6E} ")
        fields += [
            f" loss scale: {signals.get('loss_scale', 1.0):.1f} ",
            f" grad norm: {signals.get('grad_norm', math.nan):.3f} ",
            f" number of skipped iterations: {skipped:3d} ",
            f" number of nan iterations: {int(not math.isfinite(loss)):3d} ",
        ]
        self._file.write("|".join(fields) + "|\n")

    def settle(self) -> None:
        """Flush to the disk: what was logged so far outlives a kill of the process."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush to the disk and close."""
        if not self._file.closed:
            self.settle()
            self._file.close()

    def __enter__(self) -> MegatronLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
