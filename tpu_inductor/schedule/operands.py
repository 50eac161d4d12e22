"""The arrays of a kernel: how each operand and result is reshaped for the kernel's axes.

    bias: f32[512] on axes (rows, cols)   --> array (512,), in the body (1, 512)
    w: f32[512,256] read transposed       --> array (n, k), contracted along its last dimension

Every array but a vector has one dimension per axis of the order in which it is read. An operand
whose own order differs is transposed by XLA before the kernel. Operands of a matmul keep their own
order of the two matrix axes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.regions.factors import Access, Dims, Factor, Factoring
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis, Operand, Order, Place
from tpu_inductor.schedule.axes import KernelAxes
from tpu_inductor.schedule.nest import Product
from tpu_inductor.streams.scan import Kept


@dataclass(frozen=True, slots=True)
class Bindings:
    """The arrays of a kernel, and in which orders of axes its equations are computed.

    `members` has the equations that are computed in each order, `sides` the orders in which a
    contraction reads its two operands. `order` is that of the results. `kept` is no array: it stays
    in the kernel.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    order: Order
    sides: Mapping[int, tuple[Order, Order]]
    members: Mapping[Order, tuple[int, ...]]
    kept: tuple[Kept, ...] = ()


def bind_operands(region: Region, kernel_axes: KernelAxes) -> Bindings | Reject:
    """Every reading of an outer value and every result, as an array over the kernel's axes."""
    factoring = region.factoring
    assert factoring is not None
    placing = _Placing(region, factoring, kernel_axes)
    sides = placing.sides()
    if isinstance(sides, Reject):
        return sides
    members = placing.members(sides)
    inputs = _inputs(placing, sides, members)
    if isinstance(inputs, Reject):
        return inputs
    outputs: list[Operand] = []
    for var in region.outputs:
        operand = _operand(var, factoring.values[var], kernel_axes.order, kernel_axes.axes, None)
        if operand is None:
            return _interleaved(var)
        outputs.append(operand)
    order, kept = kernel_axes.order, kernel_axes.kept
    return Bindings(inputs, tuple(outputs), order, sides, members, kept)


def _interleaved(var: Var) -> Reject:
    # By its type: equal regions, whose values have other names, share the reason.
    return Reject(f"the axes of a {var.type} interleave with those of the kernel")


def _inputs(
    placing: "_Placing",
    sides: Mapping[int, tuple[Order, Order]],
    members: Mapping[Order, tuple[int, ...]],
) -> tuple[Operand, ...] | Reject:
    """One operand for all readings of a value that are alike."""
    merged: dict[tuple[object, ...], Operand] = {}
    kept = {k.old for k in placing.kernel_axes.kept}
    for access, dims in placing.factoring.accesses.items():
        var = placing.region.eqns[access.eqn].inputs[access.slot]
        assert isinstance(var, Var)
        if var in kept:
            continue
        orders = [o for o, eqns in members.items() if access.eqn in eqns]
        for order in [sides[access.eqn][access.slot]] if access.eqn in sides else orders:
            operand = _operand(var, dims, order, placing.kernel_axes.axes, access)
            if operand is None:
                return _interleaved(var)
            key = (var, operand.stored, operand.perm, operand.places)
            merged[key] = _with_accesses(operand, merged.get(key))
    return tuple(merged.values())


def _with_accesses(operand: Operand, earlier: Operand | None) -> Operand:
    if earlier is None:
        return operand
    return replace(operand, accesses=operand.accesses | earlier.accesses)


@dataclass(frozen=True, slots=True)
class _Placing:
    """Finds the orders of axes in which values are computed."""

    region: Region
    factoring: Factoring
    kernel_axes: KernelAxes

    def sides(self) -> dict[int, tuple[Order, Order]] | Reject:
        """The orders in which each contraction reads its operands."""
        found: dict[int, tuple[Order, Order]] = {}
        for dot, product in self.kernel_axes.products.items():
            left = self._matrix_order(dot, 0, product)
            right = self._matrix_order(dot, 1, product)
            if left is None or right is None:
                return Reject("no operand of the matmul has both of its axes")
            squeezed = tuple(a.name for a in self.kernel_axes.axes if not product.has(a.name))
            found[dot] = (*squeezed, *left), (*squeezed, *right)
        return found

    def members(self, sides: Mapping[int, tuple[Order, Order]]) -> dict[Order, tuple[int, ...]]:
        """The equations of each order: those that lead to a matmul operand, and the others."""
        eqns = self.region.eqns
        found = {self.kernel_axes.order: leading_to(eqns, self.region.outputs, tuple(sides))}
        for dot, orders in sides.items():
            for slot, order in enumerate(orders):
                found[order] = leading_to(eqns, (eqns[dot].inputs[slot],))
        return found

    def _matrix_order(self, dot: int, slot: int, product: Product) -> Order | None:
        """The order in which the largest array behind a matmul operand stores the matrix axes."""
        eqns = self.region.eqns
        behind = leading_to(eqns, (eqns[dot].inputs[slot],))
        wanted = (*(product.columns if slot else product.rows), *product.contracted)
        best: tuple[int, Order] | None = None
        for access, dims in self.factoring.accesses.items():
            if access != Access(dot, slot) and access.eqn not in behind:
                continue
            stored = stored_axes([f for dim in dims for f in dim], self.kernel_axes.axes)
            names = tuple(a.name for a in stored or () if a.name in wanted)
            nbytes = eqns[access.eqn].inputs[access.slot].type.nbytes
            if len(names) == len(wanted) and (best is None or nbytes > best[0]):
                best = (nbytes, names)
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


def _operand(
    var: Var, dims: Dims, order: Order, axes: Sequence[Axis], access: Access | None
) -> Operand | None:
    stored = stored_axes([f for dim in dims for f in dim], axes)
    if stored is None:
        return None
    names = [a.name for a in stored]
    perm = tuple(names.index(n) for n in order if n in names)
    return Operand(
        var,
        tuple(a.size for a in stored),
        perm,
        tuple(Place(n, n in names) for n in order),
        frozenset() if access is None else frozenset({access}),
    )
