"""When a region that could be a kernel is better left to XLA for the sake of what is around it.

A kernel is a wall for XLA's fusion: what XLA runs on both sides of it is then read and written once
more. So a kernel must be worth more than what it cuts apart.
"""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind
from tpu_inductor.regions.wiring import Wiring, is_free
from tpu_inductor.target import TpuTarget

FUSES_WITH_READERS = frozenset(["dot", "conv", "gather", "slice", "concat", "pad", "rev"])
"""Operations with whose results XLA computes on without writing them to memory."""

FEW = 2
"""Pointwise equations that no kernel is made for between two operations of XLA."""


SMALL_BYTES = 1 << 20
"""What is read and written in little more time than a launch takes."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A group with the equations around it that XLA runs: `before` and `after` it.

    `nbytes` is what the group reads and writes; `is_turned` says that its results are read in
    another order in memory alone.
    """

    work: tuple[Eqn, ...]
    before: tuple[Eqn, ...]
    after: tuple[Eqn, ...]
    is_enclosed: bool
    nbytes: int
    is_turned: bool
    target: TpuTarget

    @staticmethod
    def of(
        wiring: Wiring, members: Collection[int], computed: Set[int], target: TpuTarget
    ) -> "Neighbours":
        """Of a group of `members`. `computed` are the equations that some kernel computes."""
        eqns = wiring.graph.eqns
        compute = {i for i in members if not wiring.free[i]}
        outputs = wiring.outputs(compute)
        sources = set[int]().union(*map(wiring.sources, compute)) - compute
        readers = {r for v in outputs for r in wiring.users.get(v, ())}
        ends = {*outputs, *(v for i in members for v in eqns[i].operands)}
        inside = {v for i in members for v in eqns[i].outputs}.difference(outputs)

        def in_xla(some: set[int]) -> tuple[Eqn, ...]:
            return tuple(
                eqns[i] for i in sorted(some) if i not in computed and eqns[i].prim != EAGER
            )

        return Neighbours(
            tuple(eqns[i] for i in sorted(compute)),
            in_xla(sources),
            in_xla(readers),
            bool(sources and readers)
            and wiring.results.isdisjoint(v for i in compute for v in eqns[i].outputs)
            and computed.isdisjoint(sources | readers),
            sum(v.type.nbytes for v in ends - inside),
            all(_is_turned(wiring, v) for v in outputs),
            target,
        )

    def reason_for_xla(self) -> str:
        """Why XLA should run the group, if it should."""
        kinds = [PRIMS[e.prim].kind for e in self.work]
        if self.is_enclosed and len(kinds) <= FEW and set(kinds) == {Kind.POINTWISE}:
            return "XLA fuses it with its neighbours"
        if [k for k in kinds if k is not Kind.POINTWISE] == [Kind.DOT] and self._is_lone_product():
            if not self.target.is_tpu:
                return "a matmul without epilogue"
            if self.before or self.after:
                return "a matmul without epilogue beside what XLA runs"
            if self.is_turned:
                return "XLA writes the product in the order in which it is read"
        if self.target.is_tpu and self.nbytes < SMALL_BYTES and (self.before or self.after):
            return "too small for a launch of its own beside what XLA runs"
        feeding = [e for e in self.before if e.prim in FUSES_WITH_READERS and self._is_large(e)]
        is_one_pass = kinds.count(Kind.REDUCE) <= 1 and Kind.DOT not in kinds
        if self.target.is_tpu and feeding and is_one_pass:
            return f"XLA fuses it into the {feeding[0].prim} that feeds it"
        return ""

    def _is_lone_product(self) -> bool:
        return all(e.prim in ("dot", "convert") for e in self.work)

    def _is_large(self, eqn: Eqn) -> bool:
        """Whether the result of `eqn` is as large as anything that the group makes."""
        made: list[Var] = [v for e in self.work for v in e.outputs]
        return eqn.out.type.size >= max(v.type.size for v in made)


def find_losers(
    wiring: Wiring, kernels: Mapping[int, Collection[int]], target: TpuTarget
) -> dict[int, str]:
    """The groups that XLA should run, with the reason; `kernels` has the members of each.

    What XLA runs decides about its neighbours, so the rounds go on until nothing changes.
    """
    owner = {i: k for k, members in kernels.items() for i in members if not wiring.free[i]}
    left: dict[int, str] = {}
    asked = set(kernels)
    while asked:
        reasons = {
            k: Neighbours.of(wiring, kernels[k], owner.keys(), target).reason_for_xla()
            for k in sorted(asked)
        }
        new = {k: reason for k, reason in reasons.items() if reason}
        left |= new
        compute = [i for k in new for i in kernels[k] if owner.pop(i, None) is not None]
        asked = {owner[i] for i in _neighbours(wiring, compute) if i in owner}
    return left


def _neighbours(wiring: Wiring, compute: Collection[int]) -> set[int]:
    """The computing equations that make what these read, or read what these make."""
    made = (v for i in compute for v in wiring.graph.eqns[i].outputs)
    readers = (r for v in made for r in wiring.users.get(v, ()))
    return set[int]().union(readers, *map(wiring.sources, compute))


def _is_turned(wiring: Wiring, var: Var) -> bool:
    """Whether `var` is transposed, or its rows are cut or joined, before anything reads it.

    Memory is tiled along the last dimension, so that another one is another order too.
    """
    if var in wiring.results:
        return False
    readers = [wiring.graph.eqns[i] for i in wiring.readers.get(var, ())]
    return all(
        e.prim == "transpose"
        or (e.prim == "reshape" and e.out.type.dims[-1:] != var.type.dims[-1:])
        or (is_free(e) and _is_turned(wiring, e.out))
        for e in readers
    )
