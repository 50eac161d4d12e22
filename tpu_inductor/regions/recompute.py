"""Copies what contractions over different axes share, so that each streams along its own.

    dq = ds k (over keys); dk = ds^T q (over queries)   -->   ds for dq, and another ds for dk

Computing scores twice moves nothing; one copy of them would be written for one of the two readers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Value, Var
from tpu_inductor.graph.prims import ENDING, PRIMS
from tpu_inductor.graph.simplify import drop_dead
from tpu_inductor.regions.chains import find_chains
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Factor, factorise, flat
from tpu_inductor.regions.wiring import Wiring


def copy_shared_chains(graph: Graph) -> Graph:
    """The same graph, with copies of what leads to contractions over different axes."""
    wiring = Wiring.of(graph)
    copies: dict[int, list[Eqn]] = {}
    ends: dict[int, Eqn] = {}
    builder = Builder.after(graph)
    done: set[int] = set()
    for chain in find_chains(wiring):
        if not done.isdisjoint(chain):
            continue
        done |= chain
        for others in _other_ends(wiring, chain):
            names: dict[Value, Value] = {}
            for i in _leading_to(wiring, chain, others):
                copies.setdefault(i, []).append(_copy(graph.eqns[i], names, builder))
            for i in others:
                ends[i] = _renamed(graph.eqns[i], names)
    if not ends:
        return graph
    eqns = (e for i, eqn in enumerate(graph.eqns) for e in (ends.get(i, eqn), *copies.get(i, ())))
    return drop_dead(replace(graph, eqns=tuple(eqns)))


def _other_ends(wiring: Wiring, chain: frozenset[int]) -> Iterator[tuple[int, ...]]:
    """The contractions of a chain that end other axes than the first does, by what they end."""
    order = sorted(_with_views(wiring, chain))
    eqns = tuple(wiring.graph.eqns[i] for i in order)
    factoring = factorise(eqns, FACTOR_RULES)
    if isinstance(factoring, Reject):
        return
    late: set[Var] = set()
    found: dict[frozenset[Factor], list[int]] = {}
    for n, eqn in enumerate(eqns):
        operands = [(slot, v) for slot, v in enumerate(eqn.inputs) if v in late]
        if operands or eqn.prim == "dot":
            late.update(eqn.outputs)
        if PRIMS[eqn.prim].kind in ENDING and operands:
            dims = flat(factoring.of(eqns, n, operands[0][0]))
            ended = dims - flat(factoring.values[eqn.out])
            found.setdefault(ended, []).append(order[n])
    _, *others = found.values() or [()]
    yield from map(tuple, others)


def _with_views(wiring: Wiring, chain: Iterable[int]) -> set[int]:
    """A chain with the free equations between its own."""
    found = set(chain)
    todo = [v for i in chain for v in wiring.graph.eqns[i].operands]
    while todo:
        i = wiring.producer.get(todo.pop())
        if i is not None and i not in found and wiring.free[i]:
            found.add(i)
            todo.extend(wiring.graph.eqns[i].operands)
    return found


def _leading_to(wiring: Wiring, chain: frozenset[int], ends: Iterable[int]) -> list[int]:
    """The equations of a chain, views included, from which `ends` are computed."""
    inside = _with_views(wiring, chain)
    found: set[int] = set()
    todo = [v for i in ends for v in wiring.graph.eqns[i].operands]
    while todo:
        i = wiring.producer.get(todo.pop())
        if i is not None and i in inside and i not in found:
            found.add(i)
            todo.extend(wiring.graph.eqns[i].operands)
    return sorted(found)


def _copy(eqn: Eqn, names: dict[Value, Value], builder: Builder) -> Eqn:
    copy = _renamed(eqn, names)
    outputs = tuple(Var(builder.fresh(v.name), v.type) for v in eqn.outputs)
    names.update(zip(eqn.outputs, outputs, strict=True))
    return replace(copy, outputs=outputs)


def _renamed(eqn: Eqn, names: dict[Value, Value]) -> Eqn:
    return replace(eqn, inputs=tuple(names.get(v, v) for v in eqn.inputs))
