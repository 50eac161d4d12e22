"""Takes checks out of a graph: those that cannot fail, and those of arguments.

check(iota of 8; start=0, count=8) -->
"""

from dataclasses import replace

from tpu_inductor.graph.attrs import Check
from tpu_inductor.graph.bounds import Bounds, Interval
from tpu_inductor.graph.core import Eqn, Graph, Value
from tpu_inductor.graph.simplify import drop_dead
from tpu_inductor.graph.types import DType


def drop_proven_checks(graph: Graph) -> Graph:
    """The same function, without checks of integers that are known to be allowed."""
    if not any(isinstance(eqn.attrs, Check) for eqn in graph.eqns):
        return graph
    bounds = Bounds.of(graph)
    kept = tuple(eqn for eqn in graph.eqns if not _is_proven(eqn, bounds))
    return drop_dead(replace(graph, eqns=kept))


def split_argument_checks(graph: Graph) -> tuple[Graph, tuple[Eqn, ...]]:
    """`graph` without checks of its inputs, and these, for the host to make before a launch.

    A check of all elements of an input, moved or widened, is one of the input itself. Those behind
    a check of something else stay, as the first that fails is the one that raises.
    """
    if not any(isinstance(eqn.attrs, Check) for eqn in graph.eqns):
        return graph, ()
    roots: dict[Value, Value] = {v: v for v in graph.inputs}
    checks: list[Eqn] = []
    kept: list[Eqn] = []
    is_first = True
    for eqn in graph.eqns:
        root = roots.get(eqn.inputs[0]) if eqn.inputs else None
        is_check = isinstance(eqn.attrs, Check)
        if is_check and root is not None and is_first:
            checks.append(replace(eqn, inputs=(root,)))
            continue
        is_first = is_first and not is_check
        kept.append(eqn)
        if root is not None and _keeps_integers(eqn):
            roots[eqn.out] = root
    return drop_dead(replace(graph, eqns=tuple(kept))), tuple(checks)


def _keeps_integers(eqn: Eqn) -> bool:
    """Whether a result holds the integers that the operand holds, and no others."""
    before, after = eqn.inputs[0].type, eqn.outputs[0].type
    if eqn.prim == "convert":
        return (before.dtype, after.dtype) == (DType.I32, DType.I64)
    return eqn.prim in ("reshape", "transpose")


def _is_proven(eqn: Eqn, bounds: Bounds) -> bool:
    if not isinstance(eqn.attrs, Check):
        return False
    found = bounds[eqn.inputs[0]]
    return found is not None and allows(eqn.attrs, found)


def allows(attrs: Check, found: Interval) -> bool:
    """Whether eager torch accepts all integers of `found`."""
    last = attrs.start + attrs.count - 1
    # Modulo 2**64, all divisors but 0 are two intervals: the positive and the negative ones.
    return any(found.within(attrs.start - turn, last - turn) for turn in (0, 1 << 64))
