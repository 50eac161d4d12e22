"""Chains of equations that make the operand of one contraction from another: what may stream.

    s = q k^T; p = softmax(s); o = p v   -->   {s, the softmax, o}

Joins of pairs cannot get there: a softmax does not stream, only what sums up its results does. So
the whole of a chain is proposed at once, where what lies between its ends is larger than what they
read.
"""

from collections.abc import Collection, Iterator

from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind
from tpu_inductor.regions.mosaic import reject_for_mosaic
from tpu_inductor.regions.wiring import Wiring

WORTH = 2
"""How many times larger what lies between must be than what the contractions read."""


def find_chains(wiring: Wiring) -> Iterator[frozenset[int]]:
    """The equations of every chain, by the order of the contractions that end them."""
    for index, eqn in enumerate(wiring.graph.eqns):
        if eqn.prim != "dot":
            continue
        for value in eqn.operands:
            chain = _chain_of(wiring, index, value)
            if chain and all(reject_for_mosaic(wiring.graph.eqns[i]) is None for i in chain):
                yield chain


def _chain_of(wiring: Wiring, end: int, value: Var) -> frozenset[int]:
    """What leads from other contractions to an operand of the contraction `end`; empty if none."""
    behind = _behind(wiring, value)
    starts = {i for i in behind if wiring.graph.eqns[i].prim == "dot"}
    if not starts or not _is_worth(wiring, starts, end, value):
        return frozenset()
    inside = set(starts)
    for i in sorted(behind):
        if not inside.isdisjoint(wiring.sources(i)):
            inside.add(i)
    inside.add(end)
    _add_wide(wiring, inside, value.type.size)
    _add_makers(wiring, inside)
    return frozenset(inside)


def _add_wide(wiring: Wiring, inside: set[int], size: int) -> None:
    """Adds what else makes or reads values as large as the operand: they are not written."""
    todo = sorted(inside)
    while todo:
        i = todo.pop()
        readers = [n for v in wiring.graph.eqns[i].outputs for n in _readers(wiring, v, size)]
        makers = [wiring.producer[v] for v in wiring.bases[i] if _is_wide(wiring, v, size)]
        found = {n for n in (*readers, *makers) if n not in inside and _is_kept(wiring, n)}
        inside |= found
        todo.extend(found)


def _readers(wiring: Wiring, value: Var, size: int) -> tuple[int, ...]:
    return wiring.users.get(value, ()) if value.type.size >= size else ()


def _is_wide(wiring: Wiring, value: Var, size: int) -> bool:
    return value in wiring.producer and value.type.size >= size


def _add_makers(wiring: Wiring, inside: set[int]) -> None:
    """Adds what is computed from outer values for the chain alone: a mask, a bias."""
    outer = {v for i in inside for v in wiring.bases[i]}
    behind = set[int]().union(*(_behind(wiring, v, stops=inside) for v in outer))
    for i in sorted(behind - inside, reverse=True):
        if _serves(wiring, i, inside):
            inside.add(i)


def _serves(wiring: Wiring, index: int, inside: set[int]) -> bool:
    """Whether only equations inside read what `index` computes, and no contraction does."""
    eqn = wiring.graph.eqns[index]
    if not _is_kept(wiring, index) or reject_for_mosaic(eqn) is not None:
        return False
    if PRIMS[eqn.prim].kind is not Kind.POINTWISE:
        return False
    readers = wiring.users.get(eqn.out, ())
    prims = {wiring.graph.eqns[i].prim for i in readers}
    is_alone = inside.issuperset(readers) and eqn.out not in wiring.returned
    return is_alone and "dot" not in prims


def _is_kept(wiring: Wiring, index: int) -> bool:
    """Whether a kernel may hold the equation."""
    eqn = wiring.graph.eqns[index]
    return eqn.prim != EAGER and PRIMS[eqn.prim].kind is not Kind.OTHER


def _behind(wiring: Wiring, value: Var, stops: Collection[int] = ()) -> set[int]:
    """The computing equations that lead to `value`, back to contractions and what is no kernel."""
    found: set[int] = set()
    todo = [value]
    while todo:
        i = wiring.producer.get(todo.pop())
        if i is None or i in found or i in stops:
            continue
        eqn = wiring.graph.eqns[i]
        if wiring.free[i]:
            todo.extend(eqn.operands)
        elif _is_kept(wiring, i):
            found.add(i)
            if eqn.prim != "dot":
                todo.extend(eqn.operands)
    return found


def _is_worth(wiring: Wiring, starts: set[int], end: int, value: Var) -> bool:
    """Whether the operand that need not be written is large beside what must be read."""
    eqns = wiring.graph.eqns
    read = {v for i in starts for v in eqns[i].operands}
    read |= {v for v in eqns[end].operands if v != value}
    return value.type.size >= WORTH * max(v.type.size for v in read)
