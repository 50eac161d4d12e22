"""Drops the checks that cannot fail, by the bounds of what they look at.

check(iota of 8; start=0, count=8) -->
"""

from dataclasses import replace

from tpu_inductor.graph.attrs import Check
from tpu_inductor.graph.bounds import Bounds, Interval
from tpu_inductor.graph.core import Eqn, Graph
from tpu_inductor.graph.simplify import drop_dead


def drop_proven_checks(graph: Graph) -> Graph:
    """The same function, without checks of integers that are known to be allowed."""
    if not any(isinstance(eqn.attrs, Check) for eqn in graph.eqns):
        return graph
    bounds = Bounds.of(graph)
    kept = tuple(eqn for eqn in graph.eqns if not _is_proven(eqn, bounds))
    return drop_dead(replace(graph, eqns=kept))


def _is_proven(eqn: Eqn, bounds: Bounds) -> bool:
    if not isinstance(eqn.attrs, Check):
        return False
    found = bounds[eqn.inputs[0]]
    return found is not None and _allows(eqn.attrs, found)


def _allows(attrs: Check, found: Interval) -> bool:
    last = attrs.start + attrs.count - 1
    # Modulo 2**64, all divisors but 0 are two intervals: the positive and the negative ones.
    return any(found.within(attrs.start - turn, last - turn) for turn in (0, 1 << 64))
