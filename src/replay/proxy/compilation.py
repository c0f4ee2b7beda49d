"""The forward and backward pass made by torch.compile, where the config asks for it (``compiled``).

It needs a C++ compiler and some 20 seconds before a model's first step (5 when it was compiled on this machine before),
which pays from several thousand steps on. Sums are taken in another order: the bits differ from those of the pass as
written, and are the same each time. The embedding stays outside, so that a gradient scale which changes from step to
step does not have the rest compiled anew.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from replay.proxy.config import ConfigError, ModelConfig
from replay.proxy.model import Parameters, Pass, training_pass

TrainingPass = Callable[[Parameters, Tensor, Tensor, Tensor, ModelConfig], Pass]


@functools.cache
def compiled_pass() -> TrainingPass:
    """:func:`replay.proxy.model.training_pass`, compiled when a model or a batch shape is first seen.

    What it returns raises ConfigError where there is no C++ compiler, or when more shapes were asked for in one process
    than torch compiles.
    """
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    # fullgraph: what cannot be compiled is an error, and never quietly computed with other bits.
    compiled = torch.compile(training_pass, dynamic=False, fullgraph=True)

    def call(p: Parameters, x: Tensor, targets: Tensor, weights: Tensor, config: ModelConfig) -> Pass:
        with warnings.catch_warnings():
            # What our caches keep are constants, as the warning asks to make sure.
            warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
            try:
                return compiled(p, x, targets, weights, config)
            except FailOnRecompileLimitHit as error:
                raise ConfigError(
                    "compiled: too many models or batch sizes for one process; "
                    "train them in processes of their own, or with compiled=false"
                ) from error
            except TorchDynamoException as error:
                reason = str(error).strip().splitlines()[0]
                raise ConfigError(
                    f"compiled: torch.compile failed ({reason}); it needs a C++ compiler (g++, or what CXX names): "
                    "install one, or train with compiled=false"
                ) from error

    return call
