"""Puts the equations of a region into the loops that a tiling asks for.

grid axes            loops around everything; those that an equation ends fold
an axis in chunks    a loop around what every block computes
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.prims import ENDING, PRIMS
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Access
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis, Operand, Order
from tpu_inductor.schedule.nest import (
    Carry,
    Compute,
    Fold,
    How,
    Keep,
    Load,
    Loop,
    Nest,
    Node,
    Store,
    Take,
)
from tpu_inductor.schedule.operands import Bindings, leading_to


@dataclass(frozen=True, slots=True)
class Loops:
    """What a tiling decides about loops: the grid, outermost first, and turns to write out."""

    axes: tuple[Axis, ...]
    grid: tuple[str, ...]
    unroll: int = 1

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    @property
    def folded(self) -> tuple[str, ...]:
        """The axes of the grid that equations end: the blocks of their results add up."""
        return tuple(n for n in self.grid if self.axis(n).is_reduced)


def nest_region(region: Region, bindings: Bindings, loops: Loops) -> Nest:
    """The nest of a region: `bindings` has its operands in the forms that the kernel takes."""
    served = {(access, o.order): o for o in bindings.inputs for access in o.accesses}
    placer = _Placer(region, bindings, loops, served)
    nest = placer.folded() if loops.folded else placer.straight()
    for name in reversed([n for n in loops.grid if n not in loops.folded]):
        nest = (Loop(name, How.GRID, nest),)
    return nest


@dataclass(frozen=True, slots=True)
class _Placer:
    region: Region
    bindings: Bindings
    loops: Loops
    served: Mapping[tuple[Access, Order], Operand]

    def straight(self) -> Nest:
        """Everything in every block."""
        run = _Run(self)
        dots = self.bindings.sides
        run.compute(sorted({*self.bindings.members[self.bindings.order], *dots}), self.order)
        return self._by_chunks(run.stored(self.bindings.outputs))

    def folded(self) -> Nest:
        """What every block adds to the carries or keeps, and what follows the last block."""
        carries = self._carries()
        ends = tuple(c.eqn for c in carries)
        early, late = self._results()
        each, last = _Run(self), _Run(self)
        each.take(carries)
        each.compute(self._before(ends, early), self.order)
        each.nodes += [Keep(carry) for carry in carries if carry.old is not None]
        last.values.update((self.order, self.region.eqns[i].out) for i in ends)
        last.compute(leading_to(self.region.eqns, [o.var for o in late], stops=ends), self.order)
        each_nest = self._by_chunks(each.stored(early))
        return (Fold(self.loops.folded, carries, each_nest, last.stored(late)),)

    def _carries(self) -> tuple[Carry, ...]:
        """What a scan keeps, or else the result of every equation that ends axes."""
        eqns = self.region.eqns
        if not self.bindings.kept:
            ending = (i for i, e in enumerate(eqns) if PRIMS[e.prim].kind in ENDING)
            return tuple(self._carry(i, eqns[i]) for i in ending)
        makers = {eqn.outputs[0]: i for i, eqn in enumerate(eqns)}
        return tuple(self._carry(makers[k.new], k.closing, k.old) for k in self.bindings.kept)

    @property
    def order(self) -> Order:
        return self.bindings.order

    def _before(self, ends: Sequence[int], early: Sequence[Operand]) -> Iterable[int]:
        if self.bindings.sides:
            return ends
        closed = [v for i in ends for v in self.region.eqns[i].outputs]
        return leading_to(self.region.eqns, [*(o.var for o in early), *closed])

    def _results(self) -> tuple[list[Operand], list[Operand]]:
        """Those that have the folded axes, and those that follow the last block."""
        folded = set(self.loops.folded)
        early = [o for o in self.bindings.outputs if not folded.isdisjoint(o.present)]
        return early, [o for o in self.bindings.outputs if o not in early]

    def _carry(self, index: int, closing: Eqn, old: Var | None = None) -> Carry:
        axes = [self.loops.axis(name) for name in self.order]
        shape = tuple(1 if a.is_reduced else a.tile for a in axes if not a.is_squeezed)
        dtype = self.region.eqns[index].out.type.dtype
        # Scratch memory has no single bits: masks gather as integers.
        dtype = DType.I32 if dtype is DType.BOOL else dtype
        return Carry(index, closing, self.order, shape, dtype, old)

    def _by_chunks(self, nest: Nest) -> Nest:
        """`nest` for every chunk of a block, where an axis has chunks."""
        for axis in self.loops.axes:
            if axis.chunk:
                return (Loop(axis.name, How.LOOP, nest, self.loops.unroll),)
        return nest


@dataclass(slots=True)
class _Run:
    """Straight-line code so far: which values it has, and what it has loaded."""

    placer: _Placer
    nodes: list[Node] = field(default_factory=list[Node])
    values: set[tuple[Order, Var]] = field(default_factory=set[tuple[Order, Var]])
    loaded: set[Operand] = field(default_factory=set[Operand])

    def compute(self, members: Iterable[int], order: Order) -> None:
        """Appends the equations `members`, each after what it reads."""
        eqns, sides = self.placer.region.eqns, self.placer.bindings.sides
        for index in members:
            eqn = eqns[index]
            if (order, eqn.outputs[0]) in self.values:
                continue
            reads = sides.get(index, (order,) * len(eqn.inputs))
            for slot, read in enumerate(reads):
                if index in sides:
                    self.compute(self.placer.bindings.members[read], read)
                self._load(index, slot, read)
            self.nodes.append(Compute(index, order, reads, self._tails(eqn)))
            self.values.add((order, eqn.outputs[0]))

    def take(self, carries: Iterable[Carry]) -> None:
        """What those of `carries` that a block reads have kept of the blocks before."""
        for carry in carries:
            if carry.old is not None:
                self.nodes.append(Take(carry))
                self.values.add((carry.order, carry.old))

    def stored(self, results: Iterable[Operand]) -> Nest:
        """The nodes, and the writing of `results`."""
        return (*self.nodes, *map(Store, results))

    def _load(self, index: int, slot: int, order: Order) -> None:
        value = self.placer.region.eqns[index].inputs[slot]
        if isinstance(value, Lit) or (order, value) in self.values:
            return
        operand = self.placer.served[Access(index, slot), order]
        if operand not in self.loaded:
            self.loaded.add(operand)
            self.nodes.append(Load(operand))

    def _tails(self, eqn: Eqn) -> tuple[str, ...]:
        """The folded axes that the equation ends and whose last block is partial."""
        if PRIMS[eqn.prim].kind not in ENDING:
            return ()
        loops = self.placer.loops
        return tuple(a.name for a in loops.axes if a.name in loops.folded and a.has_tail)
