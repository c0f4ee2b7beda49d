"""What the proxy reads: batch k is a function of (seed, k) alone.

Every draw comes from a Philox generator (Salmon et al. 2011) keyed by the seed, a purpose and the batch's number, so
there is no generator state to save: any batch can be made at any time, in any process, in any order.

Sources: "copy" (the second half repeats the first; loss on the second half, so its floor is 0), "reverse" (the second
half is the first one backwards, and the first token is always the last of the alphabet, which marks the task; floor 0),
"zipf" (:mod:`replay.proxy.text`: words of a Zipf bigram source of known entropy rate), "corpus" (the bytes of a file).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.proxy import text
from replay.proxy.config import ConfigError, DataConfig, Defect, ProxyConfig, Source
from replay.proxy.streams import Purpose, generator

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sequences to learn from; time is the model's context.

    ``inputs``, ``targets``: tokens, [batch, time]; targets are the inputs moved on by one. ``weights``: which targets
    count in the loss, float32 [batch, time]. ``second``: which sequences are of the second source, bool [batch].

    In the copy tasks the last target does not count: a sequence ends there. (It is kept all the same, since 16
    positions take a twelfth of the time in softmax that 15 take.)
    """

    inputs: Tokens
    targets: Tokens
    weights: npt.NDArray[np.float32]
    second: npt.NDArray[np.bool_]

    @property
    def tokens(self) -> int:
        """Number of targets that count in the loss."""
        return int(self.weights.sum())


def batch_size_at(data: DataConfig, index: int) -> int:
    """Sequences in batch ``index``."""
    return data.batch_size if data.batch_ramp is None else round(data.batch_ramp.at(index))


def training_batch(config: ProxyConfig, index: int) -> Batch:
    """Batch ``index`` of the training data, with the defects ordered for it; errors as :func:`source_of`."""
    data = config.data
    size = batch_size_at(data, index)
    sequences, weights = _draw(
        config, data.source, generator(config.seed, Purpose.TRAINING, index), size, TRAINING_TEXT
    )
    second = np.zeros(size, dtype=np.bool_)
    if data.second_source is not None and data.second_ramp is not None:
        count = round(data.second_ramp.at(index) * size)
        if count:
            others, other_weights = _draw(
                config, data.second_source, generator(config.seed, Purpose.SECOND_SOURCE, index), count, TRAINING_TEXT
            )
            sequences[size - count :] = others
            weights[size - count :] = other_weights
            second[size - count :] = True
    for number, defect in enumerate(data.defects):
        if defect.first <= index <= defect.last:
            _spoil(sequences, defect, config, index, number)
    return _batch(sequences, weights, second)


def held_out_batch(config: ProxyConfig, index: int, size: int, source: Source | None = None) -> Batch:
    """Batch ``index`` of data that training never sees, always clean, of the first source unless another is named.

    Of a text it is the last tenth; a copy task is drawn anew, and a sequence of it may turn up in training by chance.
    """
    random = generator(config.seed, Purpose.HELD_OUT, index)
    sequences, weights = _draw(config, source or config.data.source, random, size, HELD_OUT_TEXT)
    return _batch(sequences, weights, np.zeros(size, dtype=np.bool_))


def _batch(sequences: Tokens, weights: npt.NDArray[np.float32], second: npt.NDArray[np.bool_]) -> Batch:
    return Batch(sequences[:, :-1], sequences[:, 1:], weights, second)


def entropy_floor(config: ProxyConfig) -> float | None:
    """The loss per token below which no model comes on fresh text of the first source, in nats; None if not known.

    For "zipf" it is the entropy rate: a model whose context is shorter than a few words stays a little above it. One
    that has learned the text of the training by heart is below it there.
    """
    if config.data.source in ("copy", "reverse"):
        return 0.0
    if config.data.source == "zipf":
        return text.zipf_source(config.seed).entropy_rate
    return None


TRAINING_TEXT, HELD_OUT_TEXT = (0.0, 0.9), (0.9, 1.0)
"""Where a text is read from, as shares of its length."""


def _draw(
    config: ProxyConfig, source: Source, random: np.random.Generator, size: int, stretch: tuple[float, float]
) -> tuple[Tokens, npt.NDArray[np.float32]]:
    """Sequences [size, context + 1] and the weights of their targets [size, context]; a text's from its stretch."""
    length, vocabulary = config.model.context, config.model.vocabulary
    weights = np.ones((size, length), dtype=np.float32)
    if source in ("copy", "reverse"):
        half = random.integers(0, vocabulary, size=(size, length // 2))
        weights[:, : length // 2 - 1] = 0.0
        weights[:, -1] = 0.0
        if source == "reverse":
            half[:, 0] = vocabulary - 1
        end = np.zeros((size, 1), dtype=np.int64)
        return np.concatenate([half, half if source == "copy" else half[:, ::-1], end], axis=1), weights
    symbols = source_of(config, source)
    first, behind = (round(share * len(symbols)) for share in stretch)
    starts = random.integers(first, behind - length, size=size)
    return symbols[starts[:, None] + np.arange(length + 1)].astype(np.int64), weights


def source_of(config: ProxyConfig, source: Source) -> npt.NDArray[np.uint8]:
    """The symbols of a text source.

    Raises:
        ConfigError: the vocabulary is too small for it, the text shorter than a sequence, or the file unreadable.
    """
    symbols = text.zipf_source(config.seed).symbols if source == "zipf" else text.corpus(config.data.corpus)
    needed = int(symbols.max(initial=0)) + 1
    if config.model.vocabulary < needed:
        raise ConfigError(f"model.vocabulary is {config.model.vocabulary}; source {source!r} needs at least {needed}")
    if len(symbols) - round(HELD_OUT_TEXT[0] * len(symbols)) <= config.model.context:
        raise ConfigError(
            f"the text has {len(symbols)} symbols; its last tenth, which is held out, is too short for "
            f"model.context {config.model.context}"
        )
    return symbols


def _spoil(sequences: Tokens, defect: Defect, config: ProxyConfig, index: int, number: int) -> None:
    """Spoil the first ``share`` of the sequences [batch, context + 1] in place."""
    count = round(defect.share * len(sequences))
    vocabulary = config.model.vocabulary
    random = generator(config.seed, Purpose.DEFECT, (index << 8) | number)
    shape = (count, sequences.shape[1])
    spoilt = sequences[:count]
    if defect.kind == "random":
        spoilt[:] = random.integers(0, vocabulary, size=shape)
    elif defect.kind == "repeated":
        spoilt[:] = random.integers(0, vocabulary, size=(count, 1))
    elif defect.kind == "rare":
        spoilt[:] = random.integers(vocabulary - max(1, vocabulary // 10), vocabulary, size=shape)
    elif defect.kind == "permuted":
        order = generator(config.seed, Purpose.DEFECT).permutation(vocabulary)
        # Only the odd positions: a copy of a permuted text would still be a copy.
        spoilt[:, 1::2] = order[spoilt[:, 1::2]]
    elif defect.kind == "duplicated":
        spoilt[:] = spoilt[:1]
    elif defect.kind == "mojibake":
        half = max(2, round(vocabulary**0.5))
        pairs = np.stack([spoilt // half, spoilt % half], axis=2).reshape(count, 2 * sequences.shape[1])
        spoilt[:] = pairs[:, : sequences.shape[1]]
