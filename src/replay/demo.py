"""Everything once, for real: public logbooks, a proxy run that fails, flags, an experiment, two reports.

The proxy run does what PaLM's did: it fails on one batch long after it has converged, is rolled back 100 steps,
and goes on with other data.  Its event files come in through the same parser as anyone's, and so does the logbook
beside them that tells how it was set up, that it was made to fail, and what was done.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from replay.errors import MissingProxyError

if TYPE_CHECKING:
    from replay.store import EventStore

SCENARIO = "palm-rollback-skip"
FAILURE = "data-and-state"
LOGBOOK = "glm-130b"
SEED = 1

STEPS_BACK = 100
STEPS_UNTIL_NOTICED = 40
STEPS_AFTERWARDS = 160
BATCHES_SKIPPED = 200
"""PaLM section 5.1: about 100 steps back, 200 to 500 batches skipped."""


def run_demo(store: EventStore, reports: Path) -> list[Path]:
    """Fill ``store``, write two reports into ``reports`` and return their paths.

    Raises :class:`replay.errors.MissingProxyError` without the proxy's libraries.
    """
    from replay.experiment import load_scenario
    from replay.experiment.processes import run_on_processes
    from replay.flagging import evaluate_run
    from replay.report import build_report, write_report
    from replay.rules import flags_frame

    started = time.monotonic()

    def say(message: str) -> None:
        print(f"[{time.monotonic() - started:5.1f} s] {message}", file=sys.stderr, flush=True)

    logbooks = store.ingest_builtin()
    say(f"read {len(logbooks.sources)} public logbooks into {store.folder}")

    run = f"proxy-demo-{datetime.now(UTC):%Y%m%dt%H%M%Sz}"
    say("training a small transformer until it fails, then rolling it back")
    folder = train_failing_run(reports / run)
    ingested = store.ingest([folder], run=run)
    say(f"read {sum(source.coverage.records for source in ingested.sources):,} records of {run}")

    flagged = evaluate_run(store, run)
    store.put_flags(run, flags_frame(flagged.flags, run))
    say(f"{len(flagged.flags)} flags from {len(flagged.checked)} rules")
    lost = store.attempts(run)["lost_steps"].sum()
    say(f"{len(store.attempts(run))} attempts, {lost:.0f} steps lost to rolling back")

    scenario = load_scenario(SCENARIO)
    say(f"re-enacting {scenario.name} on the proxy over {len(scenario.seeds)} seeds")
    result = run_on_processes(scenario, scenario.seeds, workers=os.cpu_count() or 1)
    say("what the experiment says:")
    print(result.summary(), file=sys.stderr)
    store.put_effects(scenario.name, result.effects)

    written = [write_report(build_report(store, name), reports / f"{name}.html") for name in (LOGBOOK, run)]
    say("done")
    return written


def train_failing_run(folder: Path, seed: int = SEED) -> Path:
    """Train a run that fails, roll it back, train on; returns ``folder``, which then holds event files and a logbook.

    The run is named as the folder is.

    Raises :class:`replay.errors.MissingProxyError` without the proxy's libraries.
    """
    try:
        from replay.proxy.runtime import runtime_restored

        with runtime_restored():
            return _train_failing_run(folder, seed)
    except ModuleNotFoundError as error:
        raise MissingProxyError(error.name or "torch") from error


def _train_failing_run(folder: Path, seed: int) -> Path:
    from replay.demo_logbook import Intervention, Telemetry, write_logbook
    from replay.proxy import failures
    from replay.proxy.telemetry import EventFileLog
    from replay.proxy.training import Training

    case = failures.get(FAILURE).case(seed)
    rollback_to = case.moment - STEPS_BACK
    telemetry = Telemetry()
    training = Training.start(case.config)
    with EventFileLog(folder) as log, TemporaryDirectory() as checkpoint:
        while training.step < case.moment + STEPS_UNTIL_NOTICED:
            signals = training.advance()
            log.log(training.step, signals)
            telemetry.add(0, training.step, signals)
            if training.step == rollback_to:
                training.save(checkpoint)
        resumed = Training.resume(checkpoint)
    noticed_at = time.time()
    resumed.data_offset += BATCHES_SKIPPED
    with EventFileLog(folder) as log:
        while resumed.step < case.moment + STEPS_AFTERWARDS:
            signals = resumed.advance()
            log.log(resumed.step, signals)
            telemetry.add(1, resumed.step, signals)
    done = Intervention(
        reached=training.step,
        back_to=rollback_to,
        skipped=BATCHES_SKIPPED,
        noticed_at=noticed_at,
        ended_at=time.time(),
    )
    write_logbook(folder, folder.name, FAILURE, case.config, telemetry, done)
    return folder
