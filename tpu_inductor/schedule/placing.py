"""In which orders of axes the equations of a region are computed, and read their operands.

s = dot q k      (m n)   reads q (m k), k (n k)
l = reduce_sum   (m n)   reads p (m n)
o = div acc l    (m d)   reads acc (m d), l (m d): as in (m n), for l has neither n nor d
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factors import Access, Dims, Factor, Factoring, flat
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis, Order, Pattern, pattern_of
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nest import Product

Key: TypeAlias = tuple[Pattern, Value]
"""A value as an array."""


@dataclass(frozen=True, slots=True)
class Placing:
    """The orders of a region's values. `sides` has those in which contractions read operands.

    `news` has what is kept next by what was kept of the blocks before, which lies alike.
    """

    region: Region
    factoring: Factoring
    kernel_axes: KernelAxes
    sides: Mapping[int, tuple[Order, Order]]
    news: Mapping[Var, Var]

    def order_of(self, var: Var) -> Order:
        """The order in which a value of the region is computed where nobody asks for another."""
        return self.kernel_axes.order_of(self.factoring.values[var])

    def reads(self, index: int, order: Order) -> tuple[Order, ...]:
        """The orders in which equation `index`, computed in `order`, reads its operands."""
        eqn = self.region.eqns[index]
        if index in self.sides:
            return self.sides[index]
        if PRIMS[eqn.prim].kind is Kind.REDUCE:
            return (self.kernel_axes.order_of(self.dims(index, 0)),)
        return (order,) * len(eqn.inputs)

    def key(self, value: Value, order: Order) -> Key:
        """A value as it lies in `order`: the same array may serve several."""
        made = self.news.get(value, value) if isinstance(value, Var) else None
        if made not in self.factoring.values:
            return order, value
        factors = flat(self.factoring.values[made])
        return pattern_of(order, self.kernel_axes.axes, factors), value

    def access_pattern(self, access: Access, order: Order) -> Pattern:
        """How what is read from outside lies in `order`."""
        factors = flat(self.factoring.accesses[access])
        return pattern_of(order, self.kernel_axes.axes, factors)

    def dims(self, index: int, slot: int) -> Dims:
        return self.factoring.of(self.region.eqns, index, slot)

    def place(self, wanted: Iterable[Var]) -> dict[tuple[int, Order], tuple[Order, ...]]:
        """Every equation behind `wanted` by the orders in which it is computed, with its reads."""
        makers = {v: i for i, eqn in enumerate(self.region.eqns) for v in eqn.outputs}
        found: dict[tuple[int, Order], tuple[Order, ...]] = {}
        met: set[Key] = set()
        todo = [(v, self.order_of(v)) for v in wanted]
        while todo:
            var, order = todo.pop()
            key = self.key(var, order)
            if var not in makers or key in met:
                continue
            met.add(key)
            index = makers[var]
            reads = found[index, order] = self.reads(index, order)
            inputs = self.region.eqns[index].inputs
            todo += [(v, r) for v, r in zip(inputs, reads, strict=True) if isinstance(v, Var)]
        return found


def find_placing(region: Region, kernel_axes: KernelAxes) -> Placing | Reject:
    """The orders of a region's values, with those of the operands of its contractions."""
    factoring = region.factoring
    assert factoring is not None
    sides: dict[int, tuple[Order, Order]] = {}
    finder = _Sides(region, factoring, kernel_axes)
    for dot, product in kernel_axes.products.items():
        left, right = finder.order(dot, 0, product), finder.order(dot, 1, product)
        if left is None or right is None:
            return Reject("no operand of the matmul has both of its axes")
        sides[dot] = left, right
    news = {k.old: k.new for k in kernel_axes.kept}
    return Placing(region, factoring, kernel_axes, sides, news)


@dataclass(frozen=True, slots=True)
class _Sides:
    region: Region
    factoring: Factoring
    kernel_axes: KernelAxes

    def order(self, dot: int, slot: int, product: Product) -> Order | None:
        """The order in which contraction `dot` reads an operand: that in which it is made by
        another contraction, or the largest array behind it is stored."""
        eqns = self.region.eqns
        names = {*(product.columns if slot else product.rows), *product.contracted}
        behind = leading_to(eqns, (eqns[dot].inputs[slot],))
        if any(i in self.kernel_axes.products for i in behind):
            dims = self.factoring.of(eqns, dot, slot)
            order = self.kernel_axes.order_of(dims)
            return order if names.issubset(order) else None
        matrix = self._stored(dot, slot, behind, names)
        matrices = self.kernel_axes.of_matrices
        squeezed = (a.name for a in self.kernel_axes.axes if a.name not in matrices)
        return None if matrix is None else (*squeezed, *matrix)

    def _stored(self, dot: int, slot: int, behind: Sequence[int], names: set[str]) -> Order | None:
        """The order in which the largest array behind an operand stores its matrix axes."""
        eqns = self.region.eqns
        best: tuple[int, Order] | None = None
        for access, dims in self.factoring.accesses.items():
            if access != Access(dot, slot) and access.eqn not in behind:
                continue
            stored = stored_axes([f for dim in dims for f in dim], self.kernel_axes.axes)
            matrix = tuple(a.name for a in stored or () if a.name in names)
            nbytes = eqns[access.eqn].inputs[access.slot].type.nbytes
            if len(matrix) == len(names) and (best is None or nbytes > best[0]):
                best = (nbytes, matrix)
        return best[1] if best else None


def leading_to(
    eqns: Sequence[Eqn], wanted: Iterable[object], stops: Sequence[int] = ()
) -> tuple[int, ...]:
    """The equations that compute `wanted`, in order, without `stops` and what only they need."""
    needed = set(wanted)
    found: list[int] = []
    for i in reversed(range(len(eqns))):
        if i not in stops and needed.intersection(eqns[i].outputs):
            found.append(i)
            needed.update(eqns[i].operands)
    return tuple(reversed(found))


def stored_axes(factors: Sequence[Factor], axes: Sequence[Axis]) -> list[Axis] | None:
    """The axes along which a value with these factors is stored; None if one is interrupted."""
    found: list[Axis] = []
    rest = list(factors)
    while rest:
        axis = next((a for a in axes if a.factors[:1] == (rest[0],)), None)
        if axis is None or tuple(rest[: len(axis.factors)]) != axis.factors:
            return None
        del rest[: len(axis.factors)]
        found.append(axis)
        found.extend(_split_rest(axis, axes))
    return found


def _split_rest(axis: Axis, axes: Sequence[Axis]) -> list[Axis]:
    """The lanes of a vector that is taken as rows: an axis without factors behind its rows."""
    after = axes[list(axes).index(axis) + 1 :]
    return [a for a in after[:1] if not a.factors and a.size > 1]
