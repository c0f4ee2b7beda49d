"""Two runs that the report's tests tell of: one with curves, one known from a logbook alone."""

from __future__ import annotations

import numpy as np
import pandas as pd

from replay import rules

from .fake_store import FakeStore

RULES = [
    rule
    for rule in rules.load()
    if rule.name
    in {
        "grad-norm-spike",
        "loss-not-finite",
        "loss-plateau",
        "loss-scale-collapse",
        "loss-spike",
        "throughput-drop",
    }
]
"""The rules that these scenes are looked at with, however many more come with replay."""


def failing_run() -> FakeStore:
    """6,000 steps with a spike at 3,000 that was rolled back to 2,900, and a NaN gradient norm under a finite loss."""
    store = FakeStore(
        {
            "run": "small-proxy", "title": "Small proxy run", "parameters": 209_000.0, "precision": "fp32",
            "optimizer": "AdamW, beta2 0.999", "sources": ["events.out.tfevents.1", "events.out.tfevents.2"],
        }
    )  # fmt: skip
    draw = np.random.default_rng(0)
    step = np.r_[1:3051, 2901:6001]
    attempt = np.r_[np.ones(3050, int), np.full(3100, 2)]
    loss = 4 * np.exp(-step / 800) + 0.3 + draw.normal(0, 0.01, len(step))
    loss[2999:3050] += 5 * np.exp(-np.arange(51) / 30)
    norm = 0.5 + draw.lognormal(-2, 0.3, len(step))
    norm[2996:3010] *= 60
    norm[4000:4003] = np.nan
    store.add_scalars("train/loss", "loss", step, loss, attempt)
    store.add_scalars("train/grad_norm", "grad_norm", step, norm, attempt)
    store.add_scalars("train/learning_rate", "learning_rate", step, np.minimum(step / 500, 1) * 3e-3, attempt)
    store.add_scalars("train/odd", None, step, loss, attempt)
    times = [pd.Timestamp(t, tz="UTC") for t in ("2024-05-01 00:00", "2024-05-01 00:51", "2024-05-01 01:42")]
    store.attempt_rows = [
        {"run": "small-proxy", "attempt": 1, "start_step": 0, "end_step": 3050, "kept_to": 2900, "lost_steps": 150}
        | {"start_time": times[0], "end_time": times[1], "end_cause": "rollback"},
        {"run": "small-proxy", "attempt": 2, "parent": 1, "start_step": 2900, "end_step": 6000, "kept_to": 6000}
        | {"lost_steps": 0, "start_time": times[1], "end_time": times[2], "end_cause": "end_of_record"},
    ]
    store.flag_rows = [
        _flag("grad-norm-spike", "grad_norm", 2997, "warning", 44.1, 0.63, "60 times the median of 200 steps"),
        _flag("our-loss-bound", "loss", 3000, "critical", 5.42, 0.39, "12 median deviations above the usual"),
        _flag("loss-not-finite", "grad_norm", 3850, "critical", np.nan, 0.63, "not a number for 3 steps", until=3852),
    ]
    store.add_event("start", step=0, evidence="logged", source="events.out.tfevents.1")
    store.add_event(
        "rollback", step=2900, before=3050, unit="step", lost_steps=150, evidence="derived",
        text="the next file begins again at 2,901", source="events.out.tfevents.2",
    )  # fmt: skip
    store.add_event("loss_spike", step=3000, step_end=3050, evidence="derived", text="the loss rises to 5.4")
    store.ledger_rows = [
        _ledger("events.out.tfevents.1", 12200, run="small-proxy"),
        _ledger("events.out.tfevents.2", 12400, run="small-proxy", lost_bytes=312, lost_records=2),
    ]
    store.problem_rows = [
        {"run": "small-proxy", "source": "events.out.tfevents.2", "kind": "corrupt", "offset": 4096}
        | {"message": "payload checksum does not hold; 2 records lost"}
    ]
    store.effect_rows = [
        {"scenario": "palm-rollback-skip", "arm": "rollback+skip_batches", "control": "do_nothing", "n_seeds": 3}
        | {"metric": "peak_excess_loss", "mean": -1.9, "low": -3.1, "high": -0.7, "verdict": "inconclusive"}
        | {"note": "3 seeds prove nothing: the smallest two-sided p is 0.25"}
    ]
    return store


def _flag(rule: str, signal: str, step: int, severity: str, value: float, usual: float, message: str, until=None):
    return {
        "run": "small-proxy", "rule": rule, "signal": signal, "step": step, "step_end": until or step,
        "severity": severity, "value": value, "baseline": usual, "score": 12.3, "message": message, "attempt": 1,
    }  # fmt: skip


def _ledger(source: str, records: int, run: str, **more: int) -> dict[str, object]:
    row = {"source": source, "run": run, "format": "tensorboard", "confidence": 1.0, "bytes_read": records * 50}
    return row | {"records": records, "not_understood": 0, "lost_bytes": 0, "lost_records": 0, "other": {}} | more


def logbook_run() -> FakeStore:
    """A large run told by a person: no curve, eight incidents, several without a step."""
    store = FakeStore(
        {
            "run": "big-100b", "title": "Big 100B", "organisation": "Example Lab", "parameters": 1e11,
            "hardware": "768 A100-40GB", "precision": "fp16, dynamic loss scale", "optimizer": "AdamW",
            "first_step": 0, "last_step": 50_000, "clock": "Asia/Shanghai", "sources": ["big-100b.yaml", "log.md"],
        }
    )  # fmt: skip
    for day, step in ((7, 4000), (12, 9100), (19, 15_300), (27, None)):
        name = f"big-100b/2022-05-{day:02}T20:14"
        common = {"incident": name, "time": f"2022-05-{day:02} 12:14", "step": step, "locator": f"§ 05-{day:02}"}
        store.add_event("crash", **common, text="training stopped")
        store.add_event("node_failure", **common, detail={"node": "n30041"}, text="a node was lost")
        store.add_event("node_replacement", **common, text="started again without the node")
        store.add_event("recovered", **common, text="went on")
    for day, step, after in ((3, 33_740, 33_600), (5, 35_250, 35_200), (20, 40_800, 40_700)):
        name = f"big-100b/2022-06-{day:02}T09:10"
        common = {"incident": name, "time": f"2022-06-{day:02} 01:10", "step": step, "locator": f"§ 06-{day:02}"}
        store.add_event("loss_scale_drop", **common, text="the loss scale fell to 32")
        store.add_event("loss_explosion", **common, text="the loss exploded")
        store.add_event("rollback", **(common | {"step": after, "before": step, "unit": "step"}), lost_hours=2.5)
        store.add_event(
            "embedding_grad_scale_change", **common, field="embedding_grad_scale", before=0.1, after=0.05,
            text="the embedding's gradient was shrunk further",
        )  # fmt: skip
        store.add_event("recovered" if day != 5 else "recurred", **common, recurred_after=5600)
    store.event_rows[-1].pop("recurred_after")
    store.add_event("start", time="2022-05-05 19:53", step=0, text="training begins")
    store.add_event("end", time="2022-06-29", time_precision="day", text="the log ends")
    store.finding_rows = [
        {
            "run": "big-100b",
            "check": "clock",
            "source": "log.md",
            "locator": "§ 2022.05.03",
            "readings": ["05-03", "05-31"],
        }
        | {"likely": "05-31", "reasons": "The entry stands between 05-30 and 06-01."}
    ]
    store.ledger_rows = [
        _ledger("log.md", 70, run="big-100b", not_understood=3)
        | {"format": "glm130b", "examples": ["Loss curve: see picture", "(to be written)"]}
    ]
    return store
