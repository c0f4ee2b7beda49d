"""Texts for the proxy: a source of words whose entropy rate is known, and the bytes of a file."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from replay.proxy.config import ConfigError
from replay.proxy.settings import shown
from replay.proxy.streams import Purpose, generator

SYMBOLS = 44
"""Alphabet of the word source: 42 letters, a space (42) and the mark of a copy (43)."""
_SPACE, _MARK = 42, 43
_WORDS, _SUCCESSORS, _COPY_PROBABILITY, _COPY_DISTANCE = 60, 4, 0.1, 4
_LENGTH = 400_000


@dataclass(frozen=True)
class WordSource:
    """A text of the word source: ``symbols`` uint8 [length], and its ``entropy_rate`` in nats a symbol.

    No model comes below that rate on fresh text, in the mean. On this one, which is long but ends, one can that has
    learned it by heart.
    """

    symbols: npt.NDArray[np.uint8]
    entropy_rate: float


@functools.lru_cache(maxsize=4)
def zipf_source(seed: int) -> WordSource:
    """The Zipf bigram source of a seed: 60 words of 2 to 7 letters, each followed by one of 4 others.

    The successors of a word have probabilities in proportion to 1, 1/2, 1/3, 1/4; with probability 0.1 the next word
    is instead a marked copy of the word four back, which only a model that looks back can foresee.

    The entropy of a step is h(0.1) + 0.9 H(1, 1/2, 1/3, 1/4) whatever the state, since marks and spaces make the
    text uniquely decodable; a step writes, on average over the stationary distribution of the words (which copying
    leaves as it is), their letters, a space, and with probability 0.1 a mark. The rate is the quotient.
    """
    random = generator(seed, Purpose.TEXT)
    words = _words(random)
    successors = np.array([random.choice(_WORDS, size=_SUCCESSORS, replace=False) for _ in range(_WORDS)])
    weights = 1.0 / np.arange(1, _SUCCESSORS + 1)
    weights /= weights.sum()
    steps = _LENGTH // 3
    choices = random.choice(_SUCCESSORS, size=steps, p=weights)
    copies = random.random(steps) < _COPY_PROBABILITY
    return WordSource(_write(words, successors, choices, copies), _entropy_rate(words, successors, weights))


def _words(random: np.random.Generator) -> list[bytes]:
    words: list[bytes] = []
    while len(words) < _WORDS:
        word = bytes(random.integers(0, _SPACE, size=int(random.integers(2, 8))).astype(np.uint8))
        if word not in words:
            words.append(word)
    return words


def _write(
    words: list[bytes],
    successors: npt.NDArray[np.int64],
    choices: npt.NDArray[np.int64],
    copies: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint8]:
    history = [0] * _COPY_DISTANCE
    pieces: list[bytes] = []
    written = 0
    for choice, copied in zip(choices.tolist(), copies.tolist(), strict=True):
        word = history[-_COPY_DISTANCE] if copied else int(successors[history[-1], choice])
        history.append(word)
        piece = (bytes([_MARK]) if copied else b"") + words[word] + bytes([_SPACE])
        pieces.append(piece)
        written += len(piece)
        if written >= _LENGTH:
            break
    return np.frombuffer(b"".join(pieces), dtype=np.uint8)[:_LENGTH]


def _entropy_rate(words: list[bytes], successors: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> float:
    transition = np.zeros((_WORDS, _WORDS))
    for word in range(_WORDS):
        transition[word, successors[word]] = weights
    # The text starts at word 0; averaging over many steps also serves chains that are periodic.
    share = np.full(_WORDS, 0.0)
    share[0] = 1.0
    total = np.zeros(_WORDS)
    for _ in range(20_000):
        share = share @ transition
        total += share
    share = total / total.sum()
    letters = float(share @ np.array([len(word) for word in words]))
    p = _COPY_PROBABILITY
    step_entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)) - (1 - p) * float(weights @ np.log(weights))
    return float(step_entropy / (letters + 1.0 + p))


@functools.lru_cache(maxsize=4)
def corpus(path: str) -> npt.NDArray[np.uint8]:
    """The bytes of a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return np.frombuffer(Path(path).read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise ConfigError(f"data.corpus: {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"data.corpus: {shown(path)} is no path of a file: {error}") from error


@functools.lru_cache(maxsize=4)
def corpus_digest(path: str) -> str:
    """SHA-256 of the bytes of a file, as :func:`corpus` read them; errors as there."""
    return hashlib.sha256(corpus(path).tobytes()).hexdigest()
