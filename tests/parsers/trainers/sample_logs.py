"""A small log of each dialect, written for the tests, and what must be found in it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from replay_parsers.parser import Parser
from replay_parsers.trainers import (
    clu,
    composer,
    composer_file,
    csv_log,
    deepspeed,
    fairseq,
    huggingface,
    json_lines,
    key_value,
    megatron,
    nanogpt,
    nanotron,
    nemo,
    olmo,
    torchtitan,
    trainer_state,
)


@dataclass(frozen=True)
class SampleLog:
    """A log, its parser, the tag of its loss, and the losses by step."""

    parser: Parser
    text: str
    tag: str
    losses: dict[int, float]


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _megatron(step: int, loss: float) -> str:
    return (
        f" iteration {step:8d}/    1000 | consumed samples: {step * 64:12d} | elapsed time per iteration (ms): 812.4 |"
        f" learning rate: 6.000E-05 | global batch size:    64 | lm loss: {loss:.6E} | grad norm: 1.250 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _titan(step: int, loss: float, rank: int, second: int) -> str:
    return (
        f"[rank{rank}]:\x1b[31m[titan] 2025-07-21 15:57:{second:02d},774 - root - INFO - \x1b[32mstep: {step:2d}"
        f"  \x1b[33mloss: {loss:7.4f}  \x1b[34mgrad_norm:  2.6422  \x1b[36mmemory:  9.46GiB(64.99%)"
        "  \x1b[35mtps: 30,768  \x1b[0mtflops: 3.15  mfu: 0.32%\x1b[0m"
    )


SAMPLE_LOGS: dict[str, SampleLog] = {
    "megatron": SampleLog(
        megatron.PARSER,
        _lines(*(_megatron(step, 2.5) for step in (10, 20, 30)), "time (ms)"),
        "lm loss",
        {10: 2.5, 20: 2.5, 30: 2.5},
    ),
    "fairseq": SampleLog(
        fairseq.PARSER,
        _lines(
            "2021-03-08 18:04:09 | INFO | fairseq_cli.train | num. model params: 13,110,865,920",
            *(
                f'2021-03-08 18:05:{second} | INFO | train_inner | {{"epoch": 1, "update": 0.001, "loss": "{loss}",'
                f' "ppl": "86945.6", "num_updates": "{step}", "lr": "2e-05", "gnorm": "18.27", "loss_scale": "4"}}'
                for second, step, loss in ((10, 1, 16.5), (20, 2, 16.25), (30, 3, 16.0))
            ),
            '2021-03-08 18:12:45 | INFO | valid | {"epoch": 1, "valid_loss": "16.5", "valid_num_updates": "3"}',
        ),
        "loss",
        {1: 16.5, 2: 16.25, 3: 16.0},
    ),
    "huggingface": SampleLog(
        huggingface.PARSER,
        "***** Running training *****\n  Total optimization steps = 100\n"
        + "".join(
            f"\r {step}%|#    | {step}/100 [00:{step}<10:00,  1.00it/s]{{'loss': {loss}, 'grad_norm': 1.25,"
            f" 'learning_rate': 5e-05, 'epoch': 0.{step}}}\n"
            for step, loss in ((10, 2.5), (20, 2.25), (30, 2.0))
        ),
        "loss",
        {10: 2.5, 20: 2.25, 30: 2.0},
    ),
    "trainer-state": SampleLog(
        trainer_state.PARSER,
        json.dumps(
            {
                "best_metric": None,
                "global_step": 30,
                "log_history": [{"epoch": step / 100, "loss": 2.5, "step": step} for step in (10, 20, 30)],
                "max_steps": 100,
            },
            indent=2,
        ),
        "loss",
        {10: 2.5, 20: 2.5, 30: 2.5},
    ),
    "torchtitan": SampleLog(
        torchtitan.PARSER,
        _lines(
            "[rank0]:[titan] 2025-07-21 15:57:40,774 - root - INFO - Training starts at step 1.",
            *(_titan(step, 5.5 - step, rank, 40 + step) for step in (1, 2, 3) for rank in range(4)),
        ),
        "loss",
        {1: 4.5, 2: 3.5, 3: 2.5},
    ),
    "olmo": SampleLog(
        olmo.PARSER,
        "".join(
            f"2025-08-08 12:0{step}:00 INFO [olmo_core.train.callbacks.console_logger:68]"
            f" [step={step}/2,000,epoch=1,eta=5h]\n"
            f"    train/CE loss={loss}\n    optim/total grad norm=1.204\n    throughput/total tokens=4.19B\n"
            f"    train/PPL=76,631\n    optim/LR (group 0)=3e-05\n"
            for step, loss in ((1, 6.5), (2, 6.25), (3, 6.0))
        )
        + "2025-08-08 12:04:00 INFO [olmo_core.train.trainer:1064] Checkpoint for step 3 saved successfully\n",
        "train/CE loss",
        {1: 6.5, 2: 6.25, 3: 6.0},
    ),
    "composer": SampleLog(
        composer.PARSER,
        "".join(
            f"[batch={step}/2000]:\n\t Train time/batch: {step - 1}\n\t Train loss/train/total: {loss}\n"
            f"\t Train metrics/train/LanguagePerplexity: 57812.25\n\t Train throughput/tokens_per_sec: 20082.8418\n"
            for step, loss in ((1, 6.5), (2, 6.25), (3, 6.0))
        )
        + "[Eval batch=1/2] Eval on eval data\n[Eval batch=2/2] Eval on eval data:\n"
        "\t Eval metrics/eval/LanguageCrossEntropy: 6.125\n",
        "loss/train/total",
        {1: 6.5, 2: 6.25, 3: 6.0},
    ),
    "composer-file": SampleLog(
        composer_file.PARSER,
        '[hyperparameter]: composer_version: "0.1" \n'
        + "".join(
            f"[metric][batch={step}]: loss/train/total: {loss} \n[metric][batch={step + 1}]: time/batch: {step + 1} \n"
            f"[stderr]: [epoch=1][batch={step + 1}/20]:\n[stderr]: \t Train loss/train/total: {loss}\n"
            for step, loss in ((0, 6.5), (1, 6.25), (2, 6.0))
        ),
        "loss/train/total",
        {0: 6.5, 1: 6.25, 2: 6.0},
    ),
    "nemo": SampleLog(
        nemo.PARSER,
        "".join(
            f"\rEpoch 0:   1%|#| {step}/77225 [9:07:58<878:01:48, 41.36s/it, loss=9.9, v_num=,"
            f" reduced_train_loss={loss:.3f}, global_step={step - 1}.0, consumed_samples=1.63e+6]"
            for step, loss in ((11, 3.5), (12, 3.25), (13, 3.0))
            for _ in range(3)
        )
        + "\n",
        "reduced_train_loss",
        {10: 3.5, 11: 3.25, 12: 3.0},
    ),
    "nanotron": SampleLog(
        nanotron.PARSER,
        _lines(
            *(
                f"10/17/2025 16:31:{step} [INFO|DP=0|PP=0|TP=0]: iteration: {step} / 378950 | consumed_tokens: 85.8G |"
                f" elapsed_time_per_iteration_ms: 11.5K | lm_loss: {loss} | lr: 1e-05 | grad_norm: 1.25"
                for step, loss in ((10, 2.38), (11, 2.35), (12, 2.51))
            )
        ),
        "lm_loss",
        {10: 2.38, 11: 2.35, 12: 2.51},
    ),
    "nanogpt": SampleLog(
        nanogpt.PARSER,
        _lines(
            "number of parameters: 123.59M",
            "step 0: train loss 10.9897, val loss 10.9898",
            *(
                f"iter {step}: loss {loss}, time 561.94ms, mfu 30.00%"
                for step, loss in ((0, 10.5), (1, 10.25), (2, 10.0))
            ),
        ),
        "loss",
        {0: 10.5, 1: 10.25, 2: 10.0},
    ),
    "clu": SampleLog(
        clu.PARSER,
        _lines(
            "I0721 15:57:42.774310 1406 logging_writer.py:72] Hyperparameters: {'lr': 0.001}",
            *(
                f"I0721 15:57:{step}.774310 1406 logging_writer.py:48] [{step}] learning_rate=0.001, train/loss={loss}"
                for step, loss in ((10, 2.5), (20, 2.25), (30, 2.0))
            ),
            "I0721 15:57:59.774310 1406 logging_writer.py:64] [30] Got texts: {'note': 'a=1'}.",
        ),
        "train/loss",
        {10: 2.5, 20: 2.25, 30: 2.0},
    ),
    "deepspeed": SampleLog(
        deepspeed.PARSER,
        _lines(
            *(
                f"[2023-04-18 01:46:{step},142] [INFO] [engine.py:1] steps: {step} loss: {loss} iter time (s): 1.2"
                " samples/sec: 850.1"
                for step, loss in ((10, 2.5), (20, 2.25), (30, 2.0))
            )
        ),
        "loss",
        {10: 2.5, 20: 2.25, 30: 2.0},
    ),
    "json-lines": SampleLog(
        json_lines.PARSER,
        _lines(*(json.dumps({"step": step, "train": {"loss": 2.5}, "lr": 1e-4}) for step in (10, 20, 30))),
        "train/loss",
        {10: 2.5, 20: 2.5, 30: 2.5},
    ),
    "csv": SampleLog(
        csv_log.PARSER,
        _lines("epoch,step,train_loss,val_loss", "0,10,2.5,", "0,10,,2.75", "0,20,2.25,", "0,30,2.0,"),
        "train_loss",
        {10: 2.5, 20: 2.25, 30: 2.0},
    ),
    "key-value": SampleLog(
        key_value.PARSER,
        _lines(
            "Loading pretrained model",
            *(f"Iter {step}: Train loss 2.786, Learning Rate 1.000e-05" for step in (10, 20, 30)),
        ),
        "Train loss",
        {10: 2.786, 20: 2.786, 30: 2.786},
    ),
}
