"""The proxy on the command line: ``replay proxy ...``.

torch is imported when a command runs, so that the others work without it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.proxy.command_helpers import FILE, FOLDER, JSON, needs_torch, print_result, progress_bar
from replay.proxy.config import ConfigError, ProxyConfig
from replay.proxy.failure_commands import failures_group
from replay.proxy.table_commands import checkpoints_command, sweep_command

if TYPE_CHECKING:
    from replay.proxy.runs import RunSummary
    from replay.proxy.training import Training


@click.group("proxy")
def proxy_commands() -> None:
    """Train the proxy transformer, resume it, make it fail on order, sweep its settings."""


for _command in (failures_group, sweep_command, checkpoints_command):
    proxy_commands.add_command(_command)


def _settings(pairs: Iterable[str]) -> dict[str, object]:
    """``optimizer.beta2=0.95`` as ``{"optimizer__beta2": 0.95}``; values are JSON, or else plain words."""
    changes: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is no setting; write NAME=VALUE, as in optimizer.beta2=0.95")
        try:
            changes[name.replace(".", "__")] = json.loads(value)
        except ValueError:
            changes[name.replace(".", "__")] = value
    return changes


def _configured(config: ProxyConfig, pairs: Iterable[str]) -> ProxyConfig:
    """A config with settings changed, checked in the same way as one read from JSON."""
    for name, value in _settings(pairs).items():
        config = ProxyConfig.from_dict(_deep(config.to_dict(), name.split("__"), value))
    return config


def _deep(values: dict[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    if len(path) == 1:
        return {**values, path[0]: value}
    inner = values.get(path[0])
    if not isinstance(inner, dict):
        raise ConfigError(f"no setting {'.'.join(path)}: {path[0]} has no parts")
    return {**values, path[0]: _deep(inner, path[1:], value)}


def _starting_config(config_file: Path | None, failure: str | None, control: bool, seed: int) -> ProxyConfig:
    from replay.proxy import failures
    from replay.proxy.recipes import language_task

    if failure is not None:
        case = failures.get(failure).case(seed)
        return case.control if control else case.config
    if config_file is None:
        return language_task(seed, learning_rate=0.01)
    try:
        text = config_file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{config_file}: {error.strerror}") from error
    try:
        return ProxyConfig.from_json(text)
    except ConfigError as error:
        raise ConfigError(f"{config_file}: {error}") from error


@proxy_commands.command("train")
@click.option("--out", type=FOLDER, required=True, help="Folder for the run's logs and checkpoints.")
@click.option("--config", "config_file", type=FILE, help="Settings as JSON (as in a run's run.json under config).")
@click.option("--failure", help="Train a failure of the catalogue instead (see `replay proxy failures list`).")
@click.option("--control", is_flag=True, help="With --failure: the same run without the cause.")
@click.option("--corpus", type=FILE, help="Train on the bytes of this file.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Change a setting, as in optimizer.beta2=0.95."
)
@click.option("--checkpoint-every", type=click.IntRange(min=0), default=0, help="Steps between checkpoints.")
@click.option("--megatron-log", is_flag=True, help="Also write log.txt in the manner of Megatron-LM.")
@click.option("--never-give-up", is_flag=True, help="Go on when the loss has not been finite for 50 steps.")
@JSON
def train_command(
    out: Path,
    config_file: Path | None,
    failure: str | None,
    control: bool,
    corpus: Path | None,
    seed: int,
    pairs: tuple[str, ...],
    checkpoint_every: int,
    megatron_log: bool,
    never_give_up: bool,
    as_json: bool,
) -> None:
    """Train the proxy and write its event files, its config and its checkpoints."""
    needs_torch()
    from replay.proxy.training import Training

    config = _starting_config(config_file, failure, control, seed)
    if config_file is None:
        config = config.replace(seed=seed)
    if corpus is not None:
        config = config.replace(data__source="corpus", data__corpus=str(corpus), model__vocabulary=256)
    config = _configured(config, pairs)
    _train_and_tell(Training.start(config), out, checkpoint_every, megatron_log, not never_give_up, as_json)


@proxy_commands.command("resume")
@click.argument("checkpoint", type=FOLDER)
@click.option("--out", type=FOLDER, help="Folder to go on writing into; without it nothing is written.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["optimizer", "scaler", "schedule", "data"]),
    help="Leave this part of the checkpoint out.",
)
@click.option("--steps", type=click.IntRange(min=1), default=50, show_default=True, help="Steps to go on.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Change a setting from here on.")
@JSON
def resume_command(
    checkpoint: Path, out: Path | None, without: tuple[str, ...], steps: int, pairs: tuple[str, ...], as_json: bool
) -> None:
    """Go on from a checkpoint; without --out, show what leaving parts out does to the held-out loss."""
    needs_torch()
    from replay.proxy.runs import forgetting
    from replay.proxy.training import Training

    if out is None:
        rows = [
            {"part": part, "step": found.step, "peak_excess": found.peak_excess, "excess_at_end": found.end_excess}
            for part in without or ("optimizer", "scaler", "schedule", "data")
            for found in [forgetting(checkpoint, part, steps)]
        ]
        print_result(rows, as_json)
        return
    training = Training.resume(checkpoint, without=without)
    training.adopt(_configured(training.config.replace(steps=training.step + steps), pairs))
    _train_and_tell(training, out, 0, False, True, as_json)


def _train_and_tell(
    training: Training, out: Path, checkpoint_every: int, megatron_log: bool, give_up: bool, as_json: bool
) -> None:
    from replay.proxy.runs import train

    with progress_bar("training", training.config.steps, training.step) as advance:
        summary: RunSummary = train(
            training,
            out,
            checkpoint_every=checkpoint_every,
            megatron_log=megatron_log,
            give_up=give_up,
            progress=lambda _, step: advance(step),
        )
    print_result(dataclasses.asdict(summary), as_json)
