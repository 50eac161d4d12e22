"""Puts the equations of a region into the loops that a tiling asks for.

grid axes            loops around everything; those that an equation ends fold
an axis in chunks    a loop around what every block computes
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.prims import ENDING, PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Access
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis, Operand, Order, Pattern
from tpu_inductor.schedule.nest import (
    Carry,
    Compute,
    Fold,
    How,
    Interleave,
    Keep,
    Lanes,
    Load,
    Loop,
    Nest,
    Node,
    Store,
    Take,
)
from tpu_inductor.schedule.operands import Bindings
from tpu_inductor.schedule.parts import Part
from tpu_inductor.schedule.placing import Key, Placing, leading_to
from tpu_inductor.streams.scan import Kept


@dataclass(frozen=True, slots=True)
class Interleaving:
    """A fold over the chunks of `axis` in the kernel, of which `turns` are written out together,
    for each chunk of `rows`, if given. Numbers of a row are kept in `lanes` lanes, if any. With
    `parts` some chunks are left out, or need no mask.
    """

    axis: str
    turns: int
    rows: str = ""
    lanes: int = 0
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Loops:
    """What a tiling decides about loops: the grid, outermost first, and turns to write out.

    `fold` is given where the blocks of an axis are folded by a loop of the kernel, `inner` has the
    axes of loops around that one, over chunks of a block, outermost first.
    """

    axes: tuple[Axis, ...]
    grid: tuple[str, ...]
    unroll: int = 1
    fold: Interleaving | None = None
    inner: tuple[str, ...] = ()

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    @property
    def lanes(self) -> int:
        """The lanes in which numbers of a row are kept; 0 for one."""
        return 0 if self.fold is None else self.fold.lanes

    @property
    def folded(self) -> tuple[str, ...]:
        """The axes that equations end and that go by in turns: of the grid, or of a loop."""
        inner = () if self.fold is None or self.fold.axis in self.grid else (self.fold.axis,)
        return (*(n for n in self.grid if self.axis(n).is_reduced), *inner)


def nest_region(region: Region, bindings: Bindings, loops: Loops) -> Nest:
    """The nest of a region: `bindings` has its operands in the forms that the kernel takes."""
    served = {
        (access, bindings.placing.access_pattern(access, o.order)): o
        for o in bindings.inputs
        for access in o.accesses
    }
    makers = {v: i for i, eqn in enumerate(region.eqns) for v in eqn.outputs}
    placer = _Placer(region, bindings, loops, served, makers)
    if loops.fold is not None:
        nest = placer.interleaved(loops.fold)
        for name in reversed(loops.inner):
            nest = (Loop(name, How.LOOP, nest),)
    else:
        nest = placer.folded() if loops.folded else placer.straight()
    for name in reversed([n for n in loops.grid if n not in loops.folded]):
        nest = (Loop(name, How.GRID, nest),)
    return nest


@dataclass(frozen=True, slots=True)
class _Placer:
    region: Region
    bindings: Bindings
    loops: Loops
    served: Mapping[tuple[Access, Pattern], Operand]
    makers: Mapping[Var, int]

    def straight(self) -> Nest:
        """Everything in every block."""
        run = _Run(self)
        run.compute(self._behind([o.var for o in self.bindings.outputs]))
        return self._by_chunks(run.stored(self.bindings.outputs))

    def folded(self) -> Nest:
        """What every block adds to the carries or keeps, and what follows the last block."""
        carries = self._carries()
        early, late = self._results(self.loops.folded)
        each = _Run(self)
        self._compute_block(each, carries, early)
        each_nest = self._by_chunks(each.stored(early))
        return (Fold(self.loops.folded, carries, each_nest, self._finished(carries, late)),)

    def interleaved(self, fold: Interleaving) -> Nest:
        """The same with the blocks in a loop of the kernel, products of the next ones ahead."""
        carries = self._carries()
        early, late = self._results((fold.axis,))
        rows = ((fold.rows, self.loops.axis(fold.rows).turns),) if fold.rows else ()
        loops: list[Node] = []
        for part in fold.parts or (Part(None, fold.turns),):
            each = _Run(self, shown=part.shown)
            each.compute(self._first(carries))
            ahead = len(each.nodes)
            self._compute_block(each, carries, early)
            body = Interleave(((fold.axis, part.turns), *rows), ahead, each.stored(early))
            loops.append(Loop(fold.axis, How.LOOP, (body,), stride=part.turns, span=part.span))
        last = Interleave(rows, 0, self._finished(carries, late))
        axes = tuple(n for n in self.loops.folded if n in self.loops.grid)
        return (Fold(axes, carries, tuple(loops), (last,)),)

    def _first(self, carries: Sequence[Carry]) -> Iterable[int]:
        """What the first equation that closes the axis is computed from."""
        for value in carries[0].closing.operands:
            behind = leading_to(self.region.eqns, (value,))
            if not self.placing.sides.keys().isdisjoint(behind):
                return (self.makers[value],)
        return ()

    def _compute_block(
        self, each: "_Run", carries: Sequence[Carry], early: Sequence[Operand]
    ) -> None:
        for carry in carries:
            if carry.old is not None:
                each.taken[carry.old] = each.kept[carry.eqn] = carry
            if carry.lanes is Lanes.PARTS:
                parts = self.region.eqns[carry.eqn].operands
                each.in_parts.update(self.makers[v] for v in parts if self._is_reduction(v))
        closed = [self.region.eqns[c.eqn].out for c in carries]
        wanted = [*(o.var for o in early), *closed]
        # What a mask that hides nothing is made of is wanted by nobody.
        each.compute(map(self.makers.__getitem__, wanted) if each.shown else self._behind(wanted))

    def _finished(self, carries: Sequence[Carry], late: Sequence[Operand]) -> Nest:
        """The results that follow the last block."""
        last = _Run(self)
        eqns, ends = self.region.eqns, tuple(c.eqn for c in carries)
        for carry in carries:
            last.taken[eqns[carry.eqn].out] = carry
            if not self.bindings.kept:
                last.take(carry, eqns[carry.eqn].out)
        last.compute(leading_to(eqns, [o.var for o in late], stops=ends))
        return last.stored(late)

    def _behind(self, wanted: Sequence[Var]) -> Iterable[int]:
        """The equations of `wanted`, without what leads to a contraction alone."""
        dots = tuple(self.placing.sides)
        behind = leading_to(self.region.eqns, wanted)
        found = {*leading_to(self.region.eqns, wanted, stops=dots), *dots}
        return [i for i in behind if i in found]

    def _carries(self) -> tuple[Carry, ...]:
        """What a scan keeps, or else the result of every equation that ends axes."""
        eqns = self.region.eqns
        if not self.bindings.kept:
            ending = (i for i, e in enumerate(eqns) if PRIMS[e.prim].kind in ENDING)
            return tuple(self._carry(i, eqns[i]) for i in ending)
        return tuple(self._carry(self.makers[k.new], k.closing, k) for k in self.bindings.kept)

    @property
    def placing(self) -> Placing:
        return self.bindings.placing

    def _results(self, folded: Iterable[str]) -> tuple[list[Operand], list[Operand]]:
        """Those that have the folded axes, and those that follow the last block."""
        folded = set(folded)
        early = [o for o in self.bindings.outputs if not folded.isdisjoint(o.present)]
        return early, [o for o in self.bindings.outputs if o not in early]

    def _carry(self, index: int, closing: Eqn, kept: Kept | None = None) -> Carry:
        carried = self.region.eqns[index].out
        order = self.placing.order_of(carried)
        along = self.placing.kernel_axes.along(self.placing.factoring.values[carried])
        axes = [a for a in map(self.loops.axis, order) if not a.is_squeezed]
        is_ended = [a.is_reduced and a.name not in along for a in axes]
        lanes = self._lanes(index, closing) if is_ended[-1] else Lanes.ONE
        alone = 1 if lanes is Lanes.ONE else self.loops.lanes
        extents = (a.extent if a.name in self.loops.inner else a.tile for a in axes)
        shape = tuple(alone if e else n for e, n in zip(is_ended, extents, strict=True))
        # Scratch memory has no single bits: masks gather as integers.
        dtype = DType.I32 if carried.type.dtype is DType.BOOL else carried.type.dtype
        old, start = (None, None) if kept is None else (kept.old, kept.start)
        return Carry(index, closing, order, shape, dtype, old, lanes, start)

    def _lanes(self, index: int, closing: Eqn) -> Lanes:
        """How the numbers of rows lie: sums that only the end needs need not be added up."""
        if not self.loops.lanes:
            return Lanes.ONE
        carried = self.region.eqns[index].out
        needed = leading_to(self.region.eqns, [k.new for k in self.bindings.kept])
        is_read = any(carried in self.region.eqns[i].inputs for i in needed)
        is_sum = closing.prim == "reduce_sum" and carried.type.dtype is DType.F32
        return Lanes.PARTS if is_sum and not is_read else Lanes.COPIES

    def _is_reduction(self, value: Var) -> bool:
        maker = self.makers.get(value)
        return maker is not None and PRIMS[self.region.eqns[maker].prim].kind is Kind.REDUCE

    def _by_chunks(self, nest: Nest) -> Nest:
        """`nest` for every chunk of a block, where an axis has chunks."""
        for axis in self.loops.axes:
            if axis.chunk:
                return (Loop(axis.name, How.LOOP, nest, self.loops.unroll),)
        return nest


@dataclass(slots=True)
class _Run:
    """Straight-line code so far: which values it has, and what it has loaded.

    `taken` are values that carries have kept, read where they are needed, `kept` carries by what
    they keep next, as soon as it is there: what lies in scratch needs no register. `shown` has the
    equations whose masks hide nothing here, with the operand that they show.
    """

    placer: _Placer
    nodes: list[Node] = field(default_factory=list[Node])
    values: set[Key] = field(default_factory=set[Key])
    loaded: set[Operand] = field(default_factory=set[Operand])
    in_parts: set[int] = field(default_factory=set[int])
    taken: dict[Var, Carry] = field(default_factory=dict[Var, Carry])
    kept: dict[int, Carry] = field(default_factory=dict[int, Carry])
    shown: Mapping[int, int] = field(default_factory=dict[int, int])

    def compute(self, members: Iterable[int]) -> None:
        """Appends the equations `members`, each after what it reads."""
        for index in members:
            out = self.placer.region.eqns[index].outputs[0]
            self._compute(index, self.placer.placing.order_of(out))

    def _compute(self, index: int, order: Order) -> None:
        eqn, placing = self.placer.region.eqns[index], self.placer.placing
        if placing.key(eqn.outputs[0], order) in self.values:
            return
        reads = placing.reads(index, order)
        taken = self.shown.get(index)
        for slot, read in enumerate(reads):
            if taken in (None, slot):
                self._read(index, slot, read)
        lanes = self.placer.loops.lanes if index in self.in_parts else 0
        self.nodes.append(Compute(index, order, reads, self._tails(index, eqn), lanes, taken))
        self.values.add(placing.key(eqn.outputs[0], order))
        if index in self.kept:
            self.nodes.append(Keep(self.kept[index]))

    def _read(self, index: int, slot: int, order: Order) -> None:
        """Computes an operand in `order`, or loads it, unless it is there."""
        value = self.placer.region.eqns[index].inputs[slot]
        if isinstance(value, Lit) or self.placer.placing.key(value, order) in self.values:
            return
        if value in self.taken:
            self.take(self.taken[value], value)
            return
        maker = self.placer.makers.get(value)
        if maker is not None:
            self._compute(maker, order)
            return
        access = Access(index, slot)
        operand = self.placer.served[access, self.placer.placing.access_pattern(access, order)]
        if operand not in self.loaded:
            self.loaded.add(operand)
            self.nodes.append(Load(operand))

    def take(self, carry: Carry, var: Var) -> None:
        self.nodes.append(Take(carry, var))
        self.values.add(self.placer.placing.key(var, carry.order))

    def stored(self, results: Iterable[Operand]) -> Nest:
        """The nodes, and the writing of `results`."""
        for var in (o.var for o in results):
            if var in self.taken:
                self.take(self.taken[var], var)
        return (*self.nodes, *map(Store, results))

    def _tails(self, index: int, eqn: Eqn) -> tuple[str, ...]:
        """The folded axes that the equation ends and whose last block is partial."""
        if PRIMS[eqn.prim].kind not in ENDING:
            return ()
        loops, placing = self.placer.loops, self.placer.placing
        along = placing.kernel_axes.along
        ended = along(placing.dims(index, 0)) - along(placing.factoring.values[eqn.out])
        names = ended.intersection(loops.folded)
        return tuple(a.name for a in loops.axes if a.name in names and a.has_tail)
