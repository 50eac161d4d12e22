"""Raises what eager torch would: of arguments before anything runs, of the rest after its program.

The last result of a program says how far each of its checks reaches. The program has run by then;
its other results are dropped, and nothing that a caller sees has been written: a graph is
functional, and torch copies into mutated arguments after it.
"""

from collections.abc import Sequence

import numpy as np

from tpu_inductor.codegen.program import Program
from tpu_inductor.graph.attrs import Check
from tpu_inductor.graph.bounds import Interval
from tpu_inductor.graph.checks import allows
from tpu_inductor.graph.core import Eqn
from tpu_inductor.runtime.adapters.protocol import Array, Launch

_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (IndexError, OverflowError, RuntimeError, ValueError, ZeroDivisionError)
}


def raise_failures(launch: Launch, program: Program) -> Launch:
    """`launch` of `program`, which raises where a check fails: the first in the graph's order."""
    if not program.checks:
        return launch
    counts = np.array([_attrs(eqn).count for eqn in program.checks], np.uint64)

    def checked(arrays: Sequence[Array]) -> Sequence[Array]:
        results = launch(arrays)
        reached = np.asarray(results[-1])
        failed = reached >= counts
        if failed.any():
            first = int(failed.argmax())
            raise failure(program.checks[first], int(reached[first]))
        return results

    return checked


def raise_failure(eqn: Eqn, array: Array) -> None:
    """Raises where the check `eqn` of all that `array` holds fails."""
    attrs, numbers = _attrs(eqn), np.asarray(array)
    if not numbers.size or allows(attrs, Interval(int(numbers.min()), int(numbers.max()))):
        return
    if attrs.ignored is not None:
        numbers = numbers[numbers != attrs.ignored]
    past = numbers.astype(np.uint64) - np.uint64(attrs.start % (1 << 64))
    if past.size and int(past.max()) >= attrs.count:
        raise failure(eqn, int(past.max()))


def failure(eqn: Eqn, reached: int) -> Exception:
    """The exception of a failed check, whose worst integer lies `reached` past the start."""
    attrs = _attrs(eqn)
    found = (attrs.start + reached + (1 << 63)) % (1 << 64) - (1 << 63)
    message = attrs.message.format(found=found)
    return _ERRORS[attrs.error](f"{message} ({eqn.origin.op} at {eqn.origin.place})")


def _attrs(eqn: Eqn) -> Check:
    assert isinstance(eqn.attrs, Check)
    return eqn.attrs
