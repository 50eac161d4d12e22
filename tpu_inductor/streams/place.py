"""When the equations of a stream run: once before, for every block, or after the last."""

from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.regions.factors import Factor, Factoring, flat


@dataclass(frozen=True, slots=True)
class Places:
    """Indices of equations, each in order."""

    before: tuple[int, ...]
    body: tuple[int, ...]
    finish: tuple[int, ...]


def place_equations(
    eqns: tuple[Eqn, ...],
    outputs: tuple[Var, ...],
    factoring: Factoring,
    axis: frozenset[Factor],
    closings: list[int],
) -> Places:
    """In the body is what leads to a closing equation or to an output along the axis.

    What neither has the axis nor depends on what closes it runs once, before.
    """
    late: set[Var] = set()
    wide: set[Var] = set()
    for i, eqn in enumerate(eqns):
        if i in closings or not late.isdisjoint(eqn.operands):
            late.update(eqn.outputs)
        if not axis.isdisjoint(flat(factoring.values[eqn.out])):
            wide.update(eqn.outputs)
    needed = {eqns[i].out for i in closings} | wide.intersection(outputs)
    for eqn in reversed(eqns):
        if not needed.isdisjoint(eqn.outputs):
            needed.update(eqn.operands)
    once = [i for i, e in enumerate(eqns) if e.out not in late and e.out not in wide]
    body = [i for i, e in enumerate(eqns) if e.out in needed and i not in once]
    finish = [i for i in range(len(eqns)) if i not in once and i not in body]
    return Places(tuple(once), tuple(body), tuple(finish))
