"""Every knob of a proxy run, in frozen data classes: checked when made, written as JSON, hashed by content.

A run is ``ProxyConfig(seed=..., steps=..., model=ModelConfig(...), ...)``. What a run changes on the way (a halved
learning rate, other betas) it changes by exchanging its config for another, so that a checkpoint's config always says
what holds from there on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from replay.proxy.ramps import Ramp
from replay.proxy.settings import (
    ConfigError,
    build,
    plain,
    read_json,
    require,
    require_choice,
    require_known_fields,
    require_not_negative,
    require_positive,
    require_share,
    require_whole,
    shown,
)

__all__ = [
    "Activation",
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
    "Source",
]


# Bounds of what is taken for a proxy; what they are together for a machine is ProxyConfig._require_room's matter.
_LARGEST_MODEL = {"vocabulary": 2**20, "context": 2**16, "width": 2**16, "depth": 2**10, "heads": 2**16}
_LARGEST_BATCH = 2**20
_LARGEST_STEP = 2**32
_MOST_PARAMETERS = 2**28

Activation = Literal["gelu", "relu", "squared_relu", "silu", "swiglu", "geglu"]
Positions = Literal["learned", "sinusoidal", "rope", "alibi", "none"]
NormKind = Literal["layernorm", "rmsnorm"]
NormPlacement = Literal["pre", "post", "deepnorm", "glm_deepnorm"]
Init = Literal["normal", "xavier", "fan_in"]
ResidualInit = Literal["plain", "scaled"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The transformer (:mod:`replay.proxy.model` says what each choice computes, and whose it is).

    ``kv_heads``: 0 means one key and value head for each query head; 1 is multi-query attention (Shazeer 2019, PaLM
    section 2). ``hidden``: width of the feed-forward layer; 0 means 4 x width. ``qk_norm``: normalise queries and keys
    (Dehghani et al. 2023, section 2). ``z_loss``: weight of the squared log-partition (PaLM section 5; 1e-4 there).
    ``embedding_grad_scale``: GLM-130B's alpha (its section on training stability), or ``embedding_grad_ramp``, which
    wins over it, to change it over steps.
    ``embedding_norm``: layer norm after the embedding (BLOOM section 3.2.3). ``logit_scale``: factor on the logits
    (PaLM: 1/sqrt(width), with tied embeddings). ``init``: standard deviation of weight matrices, ``init_std``
    ("normal"), sqrt(2 / (inputs + outputs)) ("xavier", Glorot & Bengio 2010), or 1/sqrt(inputs) ("fan_in", PaLM section
    5); embedding and output matrix have their own. ``residual_init`` "scaled" divides the matrices that write into the
    residual stream by sqrt(2 depth) (GPT-2 section 2.3); DeepNorm has factors of its own in its place.
    ``position_init`` "sinusoidal" starts learned positions as sines.
    """

    vocabulary: int = 16
    context: int = 16
    width: int = 32
    depth: int = 2
    heads: int = 4
    kv_heads: int = 0
    hidden: int = 0
    activation: Activation = "gelu"
    positions: Positions = "learned"
    norm: NormKind = "layernorm"
    norm_placement: NormPlacement = "pre"
    qk_norm: bool = False
    parallel_layers: bool = False
    biases: bool = False
    tied_embeddings: bool = False
    embedding_norm: bool = False
    z_loss: float = 0.0
    embedding_grad_scale: float = 1.0
    embedding_grad_ramp: Ramp | None = None
    logit_scale: float = 1.0
    init: Init = "normal"
    init_std: float = 0.02
    embedding_init_std: float = 0.25
    position_init: Literal["normal", "sinusoidal"] = "normal"
    output_init_std: float = 0.02
    residual_init: ResidualInit = "plain"

    def __post_init__(self) -> None:
        for name, most in _LARGEST_MODEL.items():
            require_whole(f"model.{name}", getattr(self, name), 1, most)
        require_whole("model.kv_heads", self.kv_heads, 0, self.heads)
        require_whole("model.hidden", self.hidden, 0, _LARGEST_MODEL["width"])
        require_positive("model.logit_scale", self.logit_scale)
        for name in ("z_loss", "embedding_grad_scale", "init_std", "embedding_init_std", "output_init_std"):
            require_not_negative(f"model.{name}", getattr(self, name))
        require_choice("model.activation", self.activation, Activation)
        require_choice("model.positions", self.positions, Positions)
        require_choice("model.norm", self.norm, NormKind)
        require_choice("model.norm_placement", self.norm_placement, NormPlacement)
        require_choice("model.init", self.init, Init)
        require_choice("model.position_init", self.position_init, Literal["normal", "sinusoidal"])
        require_choice("model.residual_init", self.residual_init, ResidualInit)
        require(self.width % self.heads == 0, f"model.width {self.width} is not a multiple of heads {self.heads}")
        require(
            self.heads % self.key_value_heads == 0,
            f"model.heads {self.heads} is not a multiple of kv_heads {self.kv_heads}",
        )
        require(
            self.positions != "rope" or self.head_width % 2 == 0,
            f"model.positions rope turns pairs, and needs an even head width, not {self.head_width}",
        )
        where = "positions" if self.positions == "sinusoidal" else "position_init"
        sines = self.positions == "sinusoidal" or (self.positions == "learned" and self.position_init == "sinusoidal")
        require(
            not sines or self.width % 2 == 0,
            f"model.{where} 'sinusoidal' needs an even width, of sines and cosines, not {self.width}",
        )
        require(
            self.residual_init == "plain" or self.norm_placement in ("pre", "post"),
            f"model.residual_init {self.residual_init!r} does nothing under model.norm_placement "
            f"{self.norm_placement!r}, which scales the same matrices by a factor of its own; set it to 'plain'",
        )
        if self.embedding_grad_ramp is not None:
            require_not_negative("model.embedding_grad_ramp.before", self.embedding_grad_ramp.before)
            require_not_negative("model.embedding_grad_ramp.after", self.embedding_grad_ramp.after)
        require(
            not (self.parallel_layers and self.norm_placement != "pre"),
            "model.parallel_layers goes with norm_placement 'pre' only: its two branches read one normalised input",
        )

    @property
    def key_value_heads(self) -> int:
        """Key and value heads, with the default resolved."""
        return self.kv_heads or self.heads

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    @property
    def hidden_width(self) -> int:
        """Width of the feed-forward layer, with the default resolved."""
        return self.hidden or 4 * self.width


DefectKind = Literal["random", "repeated", "rare", "permuted", "duplicated", "mojibake"]


@dataclass(frozen=True, kw_only=True)
class Defect:
    """Bad data on order: batches ``first`` to ``last`` (inclusive) have ``share`` of their sequences spoilt.

    ``random``: uniform tokens. ``repeated``: one token over and over. ``rare``: only the last tenth of the alphabet.
    ``permuted``: the alphabet shuffled, the same way in every batch. ``duplicated``: all the sequences are one of
    them. ``mojibake``: each token becomes the two tokens that its halves would be, as bytes read in a wrong encoding.
    """

    kind: DefectKind
    first: int
    last: int
    share: float = 1.0

    def __post_init__(self) -> None:
        require_choice("defect.kind", self.kind, DefectKind)
        require_share("defect.share", self.share)
        require_whole("defect.first", self.first, 0)
        require_whole("defect.last", self.last, 0)
        require(self.first <= self.last, f"defect: first batch {self.first} lies behind the last, {self.last}")


Source = Literal["copy", "reverse", "zipf", "corpus"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What the proxy reads (:mod:`replay.proxy.data`).

    ``batch_size`` in sequences, or ``batch_ramp``, which wins over it, from one size to another over batches.
    ``second_source`` is another task, mixed in with the share ``second_ramp`` of the sequences. ``corpus``: path of a
    text for source "corpus".
    """

    source: Source = "copy"
    batch_size: int = 32
    batch_ramp: Ramp | None = None
    second_source: Source | None = None
    second_ramp: Ramp | None = None
    corpus: str = ""
    defects: tuple[Defect, ...] = ()

    def __post_init__(self) -> None:
        require_whole("data.batch_size", self.batch_size, 1, _LARGEST_BATCH)
        require(len(self.defects) <= 256, f"data.defects: at most 256, not {len(self.defects):,}")
        require_choice("data.source", self.source, Source)
        if self.second_source is not None:
            require_choice("data.second_source", self.second_source, Source)
        require(
            (self.second_source is None) == (self.second_ramp is None),
            "data.second_source and data.second_ramp go together: what is mixed in, and how much of it",
        )
        for ramp in (self.second_ramp,):
            if ramp is not None:
                require_share("data.second_ramp.before", ramp.before)
                require_share("data.second_ramp.after", ramp.after)
        if self.batch_ramp is not None:
            for name in ("before", "after"):
                size = getattr(self.batch_ramp, name)
                require(
                    1 <= size <= _LARGEST_BATCH,
                    f"data.batch_ramp.{name} must lie between 1 and {_LARGEST_BATCH:,} sequences, not {shown(size)}",
                )
        require(
            "corpus" not in (self.source, self.second_source) or bool(self.corpus),
            "data.source 'corpus' needs data.corpus, the path of a text",
        )


OptimizerName = Literal["adamw", "adafactor", "sgd"]
DecayScaling = Literal["learning_rate", "learning_rate_squared", "independent"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer (:mod:`replay.proxy.optimisation`).

    ``beta2_power``: when positive, beta2 is 1 - step^-power (Adafactor section 7.2; PaLM section 5: 0.8).
    ``decay_scaling``: decoupled decay is multiplied by the learning rate (AdamW as everyone runs it), by its square
    (PaLM section 5), or by the schedule without its peak, whatever that is ("independent": Loshchilov & Hutter 2019;
    Wortsman et al. 2023). ``decay_all``: decay gains and biases too, not the matrices only; embeddings are matrices,
    learned positions among them, as in nanoGPT. ``grad_clip``: global norm, 0 for none. ``update_clip``: largest
    RMS of g^2/v of a tensor before its step is made smaller (Adafactor section 6; StableAdamW), 0 for none.
    ``parameter_scaling``: steps in proportion to a tensor's own RMS (Adafactor section 8). ``factored``: v as the outer
    product of row and column means. ``skip_above``: no update when the gradient norm exceeds that many medians of the
    last 128, once there are so many (in the manner of OLMo's skip-step optimizer), 0 for none. ``momentum`` is SGD's.
    """

    name: OptimizerName = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    beta2_power: float = 0.0
    epsilon: float = 1e-8
    momentum: float = 0.9
    weight_decay: float = 0.1
    decay_scaling: DecayScaling = "learning_rate"
    decay_all: bool = True
    grad_clip: float = 0.0
    update_clip: float = 0.0
    parameter_scaling: bool = False
    factored: bool = False
    skip_above: float = 0.0

    def __post_init__(self) -> None:
        require_choice("optimizer.name", self.name, OptimizerName)
        require_choice("optimizer.decay_scaling", self.decay_scaling, DecayScaling)
        for name in ("beta1", "beta2", "momentum"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"optimizer.{name} must be at least 0 and below 1, not {value!r}")
        for name in ("beta2_power", "epsilon", "weight_decay", "grad_clip", "update_clip", "skip_above"):
            require_not_negative(f"optimizer.{name}", getattr(self, name))
        require(self.epsilon <= 1.0, f"optimizer.epsilon must be at most 1, not {self.epsilon!r}")


ScheduleName = Literal["constant", "linear", "cosine", "inverse_sqrt", "wsd"]


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The learning rate at each step (:func:`replay.proxy.optimisation.learning_rate`).

    ``decay_start`` and ``decay_end`` in steps: where "linear", "cosine" and "wsd" (which is "linear" with a late start)
    begin and end to fall towards ``minimum``; for "inverse_sqrt" ``decay_start`` is where the fall begins (PaLM:
    10,000). ``factor`` multiplies the whole schedule (a learning rate halved in mid-run). ``rewarm_start``,
    ``rewarm_steps``: warm up again from there.
    """

    name: ScheduleName = "constant"
    learning_rate: float = 3e-3
    minimum: float = 0.0
    warmup_steps: int = 20
    decay_start: int = 0
    decay_end: int = 0
    factor: float = 1.0
    rewarm_start: int = 0
    rewarm_steps: int = 0

    def __post_init__(self) -> None:
        require_choice("schedule.name", self.name, ScheduleName)
        for name in ("learning_rate", "minimum", "factor"):
            require_not_negative(f"schedule.{name}", getattr(self, name))
        for name in ("warmup_steps", "decay_start", "decay_end", "rewarm_start", "rewarm_steps"):
            require_whole(f"schedule.{name}", getattr(self, name), 0)
        if self.name in ("linear", "cosine", "wsd"):
            require(
                self.decay_end > self.decay_start,
                f"schedule {self.name!r} needs decay_end {self.decay_end} behind decay_start {self.decay_start}",
            )
        if self.name == "inverse_sqrt":
            require(self.decay_start > 0, "schedule 'inverse_sqrt' needs decay_start, the step where the fall begins")


PrecisionMode = Literal["fp32", "bf16", "fp16", "fp16_gradients"]


@dataclass(frozen=True, kw_only=True)
class PrecisionConfig:
    """Number formats (:mod:`replay.proxy.precision`): autocast in bf16 or fp16 over fp32 weights, or plain fp32.

    ``fp16_gradients``: the forward pass in fp32, but the scaled gradients are tested for fp16's range, so that they
    overflow while the forward pass still holds. The scaler's settings count for the fp16 modes only;
    ``minimum_scale`` is the floor at which it no longer halves. What a change in mid-run does to the scale,
    :meth:`replay.proxy.precision.Precision.changed_to` says.
    """

    mode: PrecisionMode = "fp32"
    initial_scale: float = 65536.0
    growth_interval: int = 2000
    minimum_scale: float = 1.0

    def __post_init__(self) -> None:
        require_choice("precision.mode", self.mode, PrecisionMode)
        require_positive("precision.initial_scale", self.initial_scale)
        require_whole("precision.growth_interval", self.growth_interval, 1, 2**31 - 1)
        require_not_negative("precision.minimum_scale", self.minimum_scale)


FaultKind = Literal["weight_bit", "gradient_bit", "optimizer_lost"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that breaks at step ``step``, before its forward pass (a gradient: behind its backward pass).

    ``weight_bit``, ``gradient_bit``: bit ``bit`` of element ``element`` of ``parameter`` flips, as silent data
    corruption does it (bits 0 to 22 mantissa, 23 to 30 exponent, 31 sign). ``optimizer_lost``: the optimizer's moments
    and step count are zero again, as after a resume without them.
    """

    kind: FaultKind
    step: int
    parameter: str = ""
    element: int = 0
    bit: int = 30

    def __post_init__(self) -> None:
        require_choice("fault.kind", self.kind, FaultKind)
        require_whole("fault.step", self.step, 1)
        require_whole("fault.element", self.element, 0)
        require(self.kind == "optimizer_lost" or bool(self.parameter), f"fault {self.kind!r} needs a parameter's name")
        require(0 <= self.bit < 32, f"fault.bit must lie between 0 and 31, not {shown(self.bit)}")


@dataclass(frozen=True, kw_only=True)
class ProxyConfig:
    """One proxy run: everything that decides its bits, save the thread count and the torch build.

    ``compiled``: let torch.compile make the forward and backward pass (:mod:`replay.proxy.compilation`).
    """

    seed: int = 0
    steps: int = 1000
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    faults: tuple[Fault, ...] = ()
    compiled: bool = False

    def __post_init__(self) -> None:
        require_whole("seed", self.seed, 0, 2**63 - 1)
        require_whole("steps", self.steps, 0)
        self._require_room()
        for source in (self.data.source, self.data.second_source):
            if source in ("copy", "reverse"):
                require(
                    self.model.context % 2 == 0,
                    f"data.source {source!r} halves the context, which must be even, not {self.model.context}",
                )

    def _require_room(self) -> None:
        """Refuse what no small machine could hold: the proxy is for small models (about 16 GiB a step at most)."""
        m, ramp = self.model, self.data.batch_ramp
        layer = 4 * m.width**2 + 3 * m.width * m.hidden_width
        parameters = m.depth * layer + (2 * m.vocabulary + m.context) * m.width
        require(
            parameters <= _MOST_PARAMETERS,
            f"a model of some {parameters:,} parameters; the proxy takes at most {_MOST_PARAMETERS:,}: make "
            "model.width, depth or vocabulary smaller",
        )
        largest = self.data.batch_size if ramp is None else round(max(ramp.before, ramp.after))
        kept = m.depth * (8 * m.width + 2 * m.hidden_width + 2 * m.heads * m.context) + 3 * m.vocabulary
        # Held-out losses are of 128 sequences at a time, and keep nothing for a backward pass.
        held_out = 128 * m.context * max(2 * m.heads * m.context, 2 * m.vocabulary, 2 * m.hidden_width)
        numbers = max(largest * m.context * kept, held_out)
        require(
            numbers <= _LARGEST_STEP,
            f"a step would hold some {numbers:,} numbers; the proxy takes at most {_LARGEST_STEP:,}: make "
            "data.batch_size, model.context or the model smaller",
        )

    def replace(self, **changes: object) -> ProxyConfig:
        """A copy with some settings changed; a part's fields as ``optimizer__beta2=0.95``.

        Raises:
            ConfigError: no such setting, or a value that it cannot take.
        """
        whole: dict[str, object] = {}
        nested: dict[str, dict[str, object]] = {}
        for name, value in changes.items():
            part, divider, inner = name.partition("__")
            if divider:
                nested.setdefault(part, {})[inner] = value
            else:
                whole[name] = value
        for part, values in nested.items():
            require_known_fields(type(self), {part}, "")
            current = whole.get(part, getattr(self, part))
            require_known_fields(type(current), set(values), f"{part}.")
            whole[part] = dataclasses.replace(cast(Any, current), **values)
        require_known_fields(type(self), set(whole), "")
        return dataclasses.replace(self, **cast(dict[str, Any], whole))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries, numbers and strings."""
        return cast(dict[str, Any], plain(self))

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, every knob written out, so that equal configs are equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1)

    def content_hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of :meth:`to_json`."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProxyConfig:
        """The inverse of :meth:`to_dict`; fields left out take their defaults.

        Raises:
            ConfigError: a field that does not exist, or a value of the wrong type or range.
        """
        return build(cls, values, "")

    @classmethod
    def from_json(cls, text: str) -> ProxyConfig:
        """The inverse of :meth:`to_json`.

        Raises:
            ConfigError: not JSON, a key that is given twice, or as :meth:`from_dict`.
        """
        return cls.from_dict(read_json(text))
