"""What training changes for the whole process, and giving it back.

:func:`replay.proxy.training.configure_runtime` sets torch's number of threads and flushes denormals to zero, each of
which changes results, and the second those of numpy too.  Whoever calls what trains gets back what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def runtime_restored() -> Iterator[None]:
    """A stretch of training after which the caller's own threads and denormals are as they were.

    Use it around :class:`~replay.proxy.training.Training` too, where that is driven by hand.
    """
    import torch

    threads = torch.get_num_threads()
    flushed = denormals_flushed()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


def denormals_flushed() -> bool:
    """Whether this thread takes numbers too small for a normal float for zero."""
    import torch

    return float(torch.tensor(1e-40) * 1.0) == 0.0
