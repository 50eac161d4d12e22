"""Python's cycle collector, which finds nothing in a compilation and walks all that is alive.

The stages make many small values, which die by their reference counts. Their number starts the
collector, and it looks each time through every module and model of the process; JAX hooks into its
runs, too. That takes a fifth of a compilation's time.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Generator[None]:
    """No collections inside; afterwards as before. Threads that compile at once share a pause."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
