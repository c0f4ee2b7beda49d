"""The proxy: a small transformer whose every published knob can be turned, and that fails as the large ones did.

It knows nothing of the store: it writes its telemetry as any trainer does (:mod:`replay.proxy.telemetry`) and its runs
come in again through the parsers. torch is imported by the modules that compute with it (``model``, ``optimisation``,
``precision``, ``checkpoint``, ``training``), never by this one, by ``config`` or by ``data``.
"""

from replay.proxy.config import (
    ConfigError,
    DataConfig,
    Defect,
    Fault,
    ModelConfig,
    OptimizerConfig,
    PrecisionConfig,
    ProxyConfig,
    Ramp,
    ScheduleConfig,
)

__all__ = [
    "ConfigError",
    "DataConfig",
    "Defect",
    "Fault",
    "ModelConfig",
    "OptimizerConfig",
    "PrecisionConfig",
    "ProxyConfig",
    "Ramp",
    "ScheduleConfig",
]
