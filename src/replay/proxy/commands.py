"""The proxy on the command line: ``replay proxy ...``.

torch is imported when a command runs, so that the others work without it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from replay.errors import ReplayError
from replay.proxy.command_helpers import (
    FILE,
    FOLDER,
    JSON,
    known_failure,
    needs_torch,
    print_result,
    progress_bar,
    settings_given,
    writing_into,
    written_folder,
)
from replay.proxy.config import ConfigError, ProxyConfig
from replay.proxy.failure_commands import failures_group
from replay.proxy.ramps import ramps_ended
from replay.proxy.settings import MOST_STEPS, unique_keys
from replay.proxy.table_commands import checkpoints_command, sweep_command

if TYPE_CHECKING:
    from replay.proxy.training import Training

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("proxy")
def proxy_commands() -> None:
    """Train the proxy transformer, resume it, make it fail on order, sweep its settings."""


for _command in (failures_group, sweep_command, checkpoints_command):
    proxy_commands.add_command(_command)


def _settings(pairs: Iterable[str]) -> dict[str, object]:
    """``optimizer.beta2=0.95`` as ``{"optimizer.beta2": 0.95}``; values are JSON, or else plain words."""
    changes: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is no setting; write NAME=VALUE, as in optimizer.beta2=0.95")
        try:
            changes[name] = json.loads(value, object_pairs_hook=unique_keys)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
        except (ValueError, RecursionError):
            changes[name] = value
    return changes


def _configured(config: ProxyConfig, pairs: Iterable[str]) -> ProxyConfig:
    """A config with settings changed, all at once, checked in the same way as one read from JSON.

    A plain value ends the ramp that would win over it, as :meth:`replay.proxy.training.Training.change` has it.
    """
    values, changes = config.to_dict(), _settings(pairs)
    changes |= dict.fromkeys(ramps_ended(changes))
    for name, value in changes.items():
        values = _with(values, name.split("."), value)
    return ProxyConfig.from_dict(values)


def _with(values: dict[str, Any], path: Sequence[str], value: object, depth: int = 0) -> dict[str, Any]:
    """Settings with the one of a path, of which ``depth`` parts were gone already, changed."""
    part = path[depth]
    # A part that is not known is told, with what it may have meant, where the settings are checked.
    if depth == len(path) - 1 or part not in values:
        return {**values, part: value}
    if not isinstance(values[part], dict):
        raise ConfigError(f"no setting {'.'.join(path)}: {'.'.join(path[: depth + 1])} has no parts")
    return {**values, part: _with(values[part], path, value, depth + 1)}


def _starting_config(config_file: Path | None, failure: str | None, control: bool, seed: int | None) -> ProxyConfig:
    from replay.proxy import failures
    from replay.proxy.recipes import language_task

    if failure is not None:
        case = failures.get(failure).case(seed or 0)
        return case.control if control else case.config
    if config_file is None:
        return language_task(seed or 0, learning_rate=0.01)
    try:
        config = ProxyConfig.from_json(config_file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{config_file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{config_file}: byte {error.start}: not UTF-8; settings are JSON in UTF-8") from error
    except ConfigError as error:
        raise ConfigError(f"{config_file}: {error}") from error
    return config if seed is None else config.replace(seed=seed)


def _shared_options(command: Command) -> Command:
    """What training and going on with it are both told."""
    for option in (
        JSON,
        click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Other bits each."),
        click.option(
            "--never-give-up",
            is_flag=True,
            help="Go on after 50 steps without a finite loss or an update, or 500 no better than a guess.",
        ),
        click.option("--megatron-log", is_flag=True, help="Also write log.txt in the manner of Megatron-LM."),
        click.option("--checkpoint-every", type=click.IntRange(min=0), default=0, help="Steps between checkpoints."),
        click.option(
            "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Change a setting, as in optimizer.beta2=0.95."
        ),
    ):
        command = option(command)
    return command


@proxy_commands.command("train")
@written_folder("--out", required=True, help="Folder for the run's logs and checkpoints: a new one.")
@click.option("--config", "config_file", type=FILE, help="Settings as JSON (as in a run's run.json under config).")
@click.option(
    "--failure",
    callback=known_failure,
    help="Train a failure of the catalogue instead (see `replay proxy failures list`).",
)
@click.option("--control", is_flag=True, help="With --failure: the same run without the cause.")
@click.option("--corpus", type=FILE, help="Train on the bytes of this file.")
@click.option("--seed", type=click.IntRange(min=0), help="Another seed than 0, or than that of --config.")
@_shared_options
@settings_given()
def train_command(
    out: Path,
    config_file: Path | None,
    failure: str | None,
    control: bool,
    corpus: Path | None,
    seed: int | None,
    pairs: tuple[str, ...],
    **options: Any,
) -> None:
    """Train the proxy and write its event files, its config and its checkpoints."""
    if failure is not None and config_file is not None:
        raise click.UsageError("--failure brings its own settings; give it or --config")
    if control and failure is None:
        raise click.UsageError("--control goes with --failure: the same run without the cause")
    needs_torch()
    from replay.proxy.runs import holds_run
    from replay.proxy.training import Training

    if holds_run(out):
        raise click.UsageError(
            f"{out} holds a run already, and two would be mixed: name another folder, or go on with that run by "
            f"`replay proxy resume {out} --out {out}`"
        )
    config = _starting_config(config_file, failure, control, seed)
    if corpus is not None:
        config = config.replace(data__source="corpus", data__corpus=str(corpus), model__vocabulary=256)
    config = _configured(config, pairs)
    with _room_for(config):
        _train_and_tell(Training.start(config), out, **options)


@proxy_commands.command("resume")
@click.argument("checkpoint", type=FOLDER)
@written_folder("--out", help="Folder to go on writing into; without it nothing is written.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["optimizer", "scaler", "schedule", "data"]),
    help="Leave this part of the checkpoint out.",
)
@click.option(
    "--steps", type=click.IntRange(1, MOST_STEPS), help="Steps to go on, instead of to the run's end; without --out 50."
)
@click.option("--corpus", type=FILE, help="Where the run's text is now, if it was moved.")
@_shared_options
@settings_given()
def resume_command(
    checkpoint: Path,
    out: Path | None,
    without: tuple[str, ...],
    steps: int | None,
    corpus: Path | None,
    pairs: tuple[str, ...],
    **options: Any,
) -> None:
    """Go on from CHECKPOINT, or from the last one of a run's folder, to the end of the run.

    Without --out, show what leaving parts out does to the held-out loss, 50 steps on.
    """
    needs_torch()
    from replay.proxy.runs import holds_run, last_checkpoint, made_otherwise, naming_another
    from replay.proxy.training import Training

    folder = last_checkpoint(checkpoint)
    if out is None:
        _refuse_without_out({"--set": pairs, "--corpus": corpus, **_as_flags(options)})
        with naming_another(folder):
            _show_forgetting(folder, without, steps or 50, options["as_json"])
        return
    if holds_run(out) and out.resolve() not in folder.resolve().parents:
        raise click.UsageError(f"{out} holds another run than that of {folder}: name another folder, or resume from it")
    with naming_another(folder):
        training = Training.resume(folder, without=without, corpus=None if corpus is None else str(corpus))
    config = _configured(training.config, pairs)
    training.adopt(config if steps is None else config.replace(steps=training.step + steps))
    if training.step >= training.config.steps:
        raise click.UsageError(f"{folder}: the run ends at step {training.config.steps}; say how many more by --steps")
    if other := made_otherwise(folder, options["threads"]):
        click.echo(
            f"note: the checkpoint was made {other}: the run goes on, but not with the bits that it would", err=True
        )
    with _room_for(training.config):
        _train_and_tell(training, out, **options)


def _as_flags(options: dict[str, Any]) -> dict[str, object]:
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items() if name != "as_json"}
    return given | {"--threads": options["threads"] != 1}


def _refuse_without_out(options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise click.UsageError(f"{given[0]} is for a run that goes on: name its folder with --out")


def _show_forgetting(folder: Path, without: tuple[str, ...], steps: int, as_json: bool) -> None:
    from replay.proxy.runs import forgetting

    rows = [
        {"part": part, "step": found.step, "peak_excess": found.peak_excess, "excess_at_end": found.end_excess}
        for part in without or ("optimizer", "scaler", "schedule", "data")
        for found in [forgetting(folder, part, steps)]
    ]
    print_result(rows, as_json)


@contextmanager
def _room_for(config: ProxyConfig) -> Iterator[None]:
    """Tell in a line when the machine has less memory than a config within the proxy's bounds asks for."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, ReplayError) or (isinstance(error, RuntimeError) and "allocate memory" not in str(error)):
            raise
        size, context = config.data.batch_size, config.model.context
        raise ReplayError(
            f"not enough memory for batches of {size:,} sequences of {context:,} symbols, or for the model: make "
            "data.batch_size, model.context, width or depth smaller"
        ) from error


def _train_and_tell(
    training: Training,
    out: Path,
    *,
    checkpoint_every: int,
    megatron_log: bool,
    never_give_up: bool,
    threads: int,
    as_json: bool,
) -> None:
    from replay.proxy.runs import train
    from replay.proxy.training import configure_runtime

    learned_from = False
    configure_runtime(threads)
    with progress_bar("training", training.config.steps, training.step) as advance, writing_into(out):

        def see(signals: dict[str, float], step: int) -> None:
            nonlocal learned_from
            learned_from = learned_from or "loss" in signals
            advance(step)

        summary = train(
            training,
            out,
            checkpoint_every=checkpoint_every,
            megatron_log=megatron_log,
            give_up=not never_give_up,
            progress=see,
        )
    # A run of no step that learned has no loss; that is not to be taken for one whose loss was no number.
    told = dataclasses.asdict(summary) | ({} if learned_from else {"loss": None})
    print_result(told, as_json)
