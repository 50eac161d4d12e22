"""The arrays of a kernel: how each operand and result is reshaped for the kernel's axes.

    bias: f32[512] on axes (rows, cols)   --> array (512,), in the body (1, 512)
    w: f32[512,256] read transposed       --> array (n, k), contracted along its last dimension

Every array but a vector has one dimension per axis of the order in which it is read. An operand
whose own order differs is transposed by XLA before the kernel. Operands of a matmul keep their own
order of the two matrix axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Var
from tpu_inductor.regions.factors import Access, Dims
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis, Operand, Order, Place
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.placing import Placing, find_placing, stored_axes
from tpu_inductor.streams.scan import Kept


@dataclass(frozen=True, slots=True)
class Bindings:
    """The arrays of a kernel, and the orders of axes in which its equations are computed.

    `kept` is no array: it stays in the kernel.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    placing: Placing
    kept: tuple[Kept, ...] = ()


def bind_operands(region: Region, kernel_axes: KernelAxes) -> Bindings | Reject:
    """Every reading of an outer value and every result, as an array over the kernel's axes."""
    placing = find_placing(region, kernel_axes)
    if isinstance(placing, Reject):
        return placing
    inputs = _inputs(placing)
    if isinstance(inputs, Reject):
        return inputs
    outputs: list[Operand] = []
    for var in region.outputs:
        dims, order = placing.factoring.values[var], placing.order_of(var)
        operand = _operand(var, dims, order, kernel_axes.axes, None)
        if operand is None:
            return _interleaved(var)
        outputs.append(operand)
    return Bindings(inputs, tuple(outputs), placing, kernel_axes.kept)


def _interleaved(var: Var) -> Reject:
    # By its type: equal regions, whose values have other names, share the reason.
    return Reject(f"the axes of a {var.type} interleave with those of the kernel")


def _inputs(placing: Placing) -> tuple[Operand, ...] | Reject:
    """One operand for all readings of a value that are alike."""
    region, kernel_axes = placing.region, placing.kernel_axes
    kept = {k.old for k in kernel_axes.kept}
    placed = placing.place((*region.outputs, *(k.new for k in kernel_axes.kept)))
    orders: dict[Access, dict[Order, None]] = {}
    for (index, _), reads in sorted(placed.items(), key=lambda item: item[0][0]):
        for slot, order in enumerate(reads):
            orders.setdefault(Access(index, slot), {})[order] = None
    merged: dict[tuple[object, ...], Operand] = {}
    for access, dims in placing.factoring.accesses.items():
        var = region.eqns[access.eqn].inputs[access.slot]
        assert isinstance(var, Var)
        for order in () if var in kept else orders.get(access, ()):
            operand = _operand(var, dims, order, kernel_axes.axes, access)
            if operand is None:
                return _interleaved(var)
            key = (var, operand.stored, operand.perm, operand.places)
            merged[key] = _with_accesses(operand, merged.get(key))
    return tuple(merged.values())


def _with_accesses(operand: Operand, earlier: Operand | None) -> Operand:
    if earlier is None:
        return operand
    return replace(operand, accesses=operand.accesses | earlier.accesses)


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
