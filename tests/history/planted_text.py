"""Two logbooks of our own in plain words, and faults to plant in their text, one at a time.

Each fault is a slip of the pen of a kind that real logbooks have.  ``traceless`` says why nothing else in the book
could tell it: such faults are planted too, and counted as missed.
"""

from __future__ import annotations

from dataclasses import dataclass

ENGLISH = """# Log of the run heron-9b

All times are UTC. 10.0 s/step at a global batch of 1024. A checkpoint is saved every 500 steps.

## 2024-06-03 08:00 Start

Started from step 0 with `--lr 2e-4`.

## 2024-06-05 04:40 Node failure

Node c14 died at step 15,800. Restarted from step 15,500.

## 2024-06-07 14:10 GPU failure

ECC error on c22, crashed at step 36,100. Restarted from step 36,000, lost 100 steps.

## 2024-06-10 05:30 Loss spike

Loss spiked from 2.31 to 4.02 at step 58,640. Rolled back to step 58,000 and skipped batches 58,601-58,700
(`--skip-train-iteration-range 58601-58700`).

## 2024-06-12 19:00 Lower learning rate

Reduced the learning rate from 2e-4 to 1.6e-4 (`--lr 1.6e-4`). Restarted from step 79,500.

## 2024-06-15 09:10 Hang

The job hung at step 101,700 in an all-reduce. Restarted from step 101,500.

## 2024-06-17 18:00 Gradient spike

Gradient norm spiked at step 121,900. Rolled back to step 121,500. Changed gradient clipping from 1.0 to 0.6.

## 2024-06-20 02:30 File system outage

The file system failed and training crashed at step 141,700. Restarted from step 141,000, lost 700 steps.

## 2024-06-22 21:00 Lower learning rate again

Reduced the learning rate from 1.6e-4 to 1.2e-4. Restarted from step 164,500.

## 2024-06-25 07:00 Clip again

Changed gradient clipping from 0.6 to 0.4. Restarted from step 185,000.

## 2024-06-27 11:20 Loss spike

Loss spiked from 1.87 to 2.65 at step 203,100. Rolled back to step 202,500 and skipped batches 203,001-203,200.

## 2024-06-30 01:00 Finished

Training finished at step 224,000.

## Summary

| cause | restarts | share |
|---|---|---|
| hardware | 3 | 30% |
| software | 1 | 10% |
| spikes | 3 | 30% |
| settings | 3 | 30% |
| total | 10 | 100% |

In total 3 spikes: 2 of the loss and 1 of the gradient norm. Of all restarts 4 of 10 (40%) were by failures.
"""

CHINESE = """# 海燕-7B 训练日志

时间均为北京时间。每步约 12 s/step。

## 2024年4月2日 09:00 启动训练

从第 0 步开始训练。

## 2024年4月4日 13:00 节点故障

节点 gpu-031 掉卡，训练中断在 15,500 步，从 15,000 步的 checkpoint 恢复训练。

## 2024年4月7日 10:00 loss 尖峰

在 35,600 步 loss 从 2.4 突增到 5.1。回滚到 35,000 步，并跳过 35,500-35,700 步的数据。

## 2024年4月10日 12:00 调整学习率

把学习率从 2e-4 降到 1.5e-4，从 56,000 步重启。

## 2024年4月13日 11:00 存储故障

存储故障，训练中断在 77,000 步，从 76,500 步重启。

## 2024年4月16日 15:00 调整梯度裁剪

梯度裁剪由 1.0 改为 0.5，从 98,500 步重启。

## 2024年4月19日 10:00 再次调整学习率

把学习率从 1.5e-4 降到 1.2e-4，从 118,500 步重启。
"""

BOOKS = {"english": ENGLISH, "chinese": CHINESE}


@dataclass(frozen=True)
class Slip:
    """One fault: ``changes`` are pairs of what stands in ``book`` and what is put in its place.

    ``where`` is a part of the heading or locator at which it shows: any of several where it contradicts another entry.
    """

    kind: str
    book: str
    changes: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    traceless: str = ""

    @property
    def text(self) -> str:
        """The book with the fault in it."""
        text = BOOKS[self.book]
        for was, became in self.changes:
            assert text.count(was) == 1, f"{was!r} stands {text.count(was)} times in the {self.book} book"
            text = text.replace(was, became)
        return text

    def __str__(self) -> str:
        return f"{self.kind}, {self.book}: " + "; ".join(f"{was} -> {became}" for was, became in self.changes)


def _slip(kind: str, was: str, became: str, *where: str, book: str = "english", traceless: str = "") -> Slip:
    return Slip(kind, book, ((was, became),), where, traceless)


_ONE_CHECKPOINT = "a checkpoint further back lies on the grid, and nobody says that the last one was taken"
_HOUR = "training may be late by hours, and people write late"
_ALONE = "the book tells it once, and nothing follows from it"
_SCHEDULE = "a schedule lowers the learning rate as well"

SLIPS = (
    _slip("month", "2024-06-10 05:30", "2024-05-10 05:30", "2024-05-10"),
    _slip("day", "2024-06-20 02:30", "2024-06-26 02:30", "2024-06-26"),
    _slip("year", "2024-06-15 09:10", "2023-06-15 09:10", "2023-06-15"),
    _slip("date that no calendar has", "2024-06-22 21:00", "2024-06-32 21:00", "2024-06-32", "2024-06-20"),
    _slip("date that no calendar has", "2024-06-25 07:00", "2024-06-31 07:00", "2024-06-31"),
    _slip("hour", "2024-06-12 19:00", "2024-06-12 16:00", "2024-06-12", traceless=_HOUR),
    _slip("restart beyond what was reached", "from step 36,000, lost 100 steps", "from step 36,500", "06-07"),
    _slip("restart beyond what was reached", "from step 141,000, lost 700 steps", "from step 142,000", "06-20"),
    _slip("digits of a restart", "Restarted from step 79,500", "Restarted from step 97,500", "06-12"),
    _slip("digits of a restart", "Restarted from step 101,500", "Restarted from step 10,150", "06-15"),
    _slip("digits of a restart", "Restarted from step 15,500", "Restarted from step 15,000", "06-05",
          traceless=_ONE_CHECKPOINT),
    _slip("off the grid", "Rolled back to step 121,500", "Rolled back to step 121,530", "06-17"),
    _slip("rollback after the spike", "Rolled back to step 58,000", "Rolled back to step 59,000", "06-10"),
    _slip("step of a spike", "4.02 at step 58,640", "4.02 at step 56,840", "06-10"),
    _slip("step of a stop", "hung at step 101,700", "hung at step 71,700", "06-15"),
    _slip("step of a stop", "died at step 15,800", "died at step 15,900", "06-05", traceless=_ALONE),
    _slip("end before what came before", "finished at step 224,000", "finished at step 202,400", "06-30"),
    Slip("range misses the spike", "english",
         (("58,601-58,700", "56,601-56,700"), ("58601-58700", "56601-56700")), ("06-10",)),
    _slip("range misses the spike", "skipped batches 203,001-203,200", "skipped batches 230,001-230,200", "06-27"),
    _slip("option against words", "range 58601-58700", "range 85601-85700", "06-10"),
    _slip("option against words", "`--lr 1.6e-4`", "`--lr 1.9e-4`", "06-12"),
    _slip("chain of values", "from 1.6e-4 to 1.2e-4", "from 1.9e-4 to 1.2e-4", "06-22"),
    _slip("chain of values", "from 1.6e-4 to 1.2e-4", "from 1.5e-4 to 1.2e-4", "06-22", traceless=_SCHEDULE),
    _slip("chain of values", "clipping from 0.6 to 0.4", "clipping from 0.8 to 0.4", "06-25", "06-17"),
    _slip("exchanged", "from 2e-4 to 1.6e-4", "from 1.6e-4 to 2e-4", "06-12"),
    _slip("exchanged", "spiked from 1.87 to 2.65", "spiked from 2.65 to 1.87", "06-27"),
    _slip("one of two values", "spiked from 2.31 to 4.02", "spiked from 2.37 to 4.02", "06-10", traceless=_ALONE),
    _slip("lost steps", "lost 700 steps", "lost 1700 steps", "06-20"),
    _slip("lost steps", "lost 100 steps", "lost 700 steps", "06-07"),
    _slip("total of a table", "| total | 10 |", "| total | 12 |", "line"),
    _slip("share of a table", "| software | 1 | 10% |", "| software | 1 | 16% |", "line"),
    Slip("count against the entries", "english",
         (("| hardware | 3 | 30% |", "| hardware | 9 | 56% |"), ("| software | 1 | 10% |", "| software | 1 | 6% |"),
          ("| spikes | 3 | 30% |", "| spikes | 3 | 19% |"), ("| settings | 3 | 30% |", "| settings | 3 | 19% |"),
          ("| total | 10 |", "| total | 16 |")), ("line",)),
    _slip("sum in a sentence", "In total 3 spikes", "In total 5 spikes", "line"),
    _slip("share in a sentence", "4 of 10 (40%)", "4 of 10 (45%)", "line"),
    _slip("name of a node", "Node c14", "Node c41", "06-05", traceless=_ALONE),
    _slip("month", "2024年4月13日", "2024年3月13日", "3月13日", book="chinese"),
    _slip("digits of a restart", "从 56,000 步重启", "从 65,000 步重启", "4月10日", book="chinese"),
    _slip("restart beyond what was reached", "从 76,500 步重启", "从 77,500 步重启", "4月13日", book="chinese"),
    _slip("rollback after the spike", "回滚到 35,000 步", "回滚到 36,000 步", "4月7日", book="chinese"),
    _slip("range misses the spike", "跳过 35,500-35,700 步", "跳过 38,500-38,700 步", "4月7日", book="chinese"),
    _slip("chain of values", "从 1.5e-4 降到 1.2e-4", "从 1.9e-4 降到 1.2e-4", "4月19日", book="chinese"),
    _slip("exchanged", "从 2.4 突增到 5.1", "从 5.1 突增到 2.4", "4月7日", book="chinese"),
    _slip("exchanged", "从 2e-4 降到 1.5e-4", "从 1.5e-4 降到 2e-4", "4月10日", "4月19日", book="chinese"),
)  # fmt: skip
