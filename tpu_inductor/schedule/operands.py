"""The arrays of a kernel: how each operand and result is reshaped for the kernel's axes.

    bias: f32[512] on axes (rows, cols)   --> array (512,), in the body (1, 512)
    w: f32[512,256] read transposed       --> array (n, k), contracted along its last dimension

In the main space every array but a vector has one dimension per axis. An operand whose own order
of axes differs is transposed by XLA before the kernel. Operands of the matmul keep their own order
of the two matrix axes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.regions.factors import Access, Dims, Factor, Factoring
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.axes import KernelAxes
from tpu_inductor.schedule.types import Axis, Operand, Place, Space


@dataclass(frozen=True, slots=True)
class Bindings:
    """The arrays of a kernel, and which equations are computed in which space, in order."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    members: dict[Space, tuple[int, ...]]


def bind_operands(region: Region, kernel_axes: KernelAxes) -> Bindings | Reject:
    """Every reading of an outer value and every result, as an array over the kernel's axes."""
    factoring = region.factoring
    assert factoring is not None
    members = _members(region, kernel_axes.dot)
    orders = _space_axes(region, factoring, kernel_axes, members)
    if isinstance(orders, Reject):
        return orders
    merged: dict[tuple[object, ...], Operand] = {}
    for access, dims in factoring.accesses.items():
        var = region.eqns[access.eqn].inputs[access.slot]
        assert isinstance(var, Var)
        for space in _spaces_of(access, members, kernel_axes.dot):
            operand = _operand(var, dims, orders[space], kernel_axes.axes, space, access)
            if operand is None:
                return Reject(f"the axes of {var} interleave with those of the kernel")
            key = (var, space, operand.stored, operand.perm, operand.places)
            merged[key] = _with_accesses(operand, merged.get(key))
    outputs: list[Operand] = []
    for var in region.outputs:
        operand = _operand(
            var, factoring.values[var], orders[Space.MAIN], kernel_axes.axes, Space.MAIN, None
        )
        if operand is None:
            return Reject(f"the axes of {var} interleave with those of the kernel")
        outputs.append(operand)
    return Bindings(tuple(merged.values()), tuple(outputs), members)


def _with_accesses(operand: Operand, earlier: Operand | None) -> Operand:
    if earlier is None:
        return operand
    every = operand.accesses | earlier.accesses
    return Operand(operand.var, operand.space, operand.stored, operand.perm, operand.places, every)


def _members(region: Region, dot: int | None) -> dict[Space, tuple[int, ...]]:
    """The equations of each space: those that lead to a matmul operand, and the others."""
    if dot is None:
        return {Space.MAIN: tuple(range(len(region.eqns)))}
    lhs, rhs = region.eqns[dot].inputs
    return {
        Space.MAIN: leading_to(region.eqns, region.outputs, (dot,)),
        Space.LHS: leading_to(region.eqns, (lhs,)),
        Space.RHS: leading_to(region.eqns, (rhs,)),
    }


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


def _spaces_of(
    access: Access, members: dict[Space, tuple[int, ...]], dot: int | None
) -> tuple[Space, ...]:
    if access.eqn == dot:
        return (Space.LHS if access.slot == 0 else Space.RHS,)
    return tuple(space for space, eqns in members.items() if access.eqn in eqns)


def _space_axes(
    region: Region,
    factoring: Factoring,
    kernel_axes: KernelAxes,
    members: dict[Space, tuple[int, ...]],
) -> dict[Space, tuple[str, ...]] | Reject:
    """The order of axes in each space."""
    names = tuple(a.name for a in kernel_axes.axes)
    if kernel_axes.dot is None:
        return {Space.MAIN: names}
    squeezed = names[:-3]
    orders: dict[Space, tuple[str, ...]] = {Space.MAIN: (*squeezed, "m", "n")}
    for space, free in ((Space.LHS, "m"), (Space.RHS, "n")):
        matrix = _matrix_order(region, factoring, kernel_axes, members, space, free)
        if matrix is None:
            return Reject("no operand of the matmul has both of its axes")
        orders[space] = (*squeezed, *matrix)
    return orders


def _matrix_order(
    region: Region,
    factoring: Factoring,
    kernel_axes: KernelAxes,
    members: dict[Space, tuple[int, ...]],
    space: Space,
    free: str,
) -> tuple[str, ...] | None:
    """The order in which the largest array behind a matmul operand stores the matrix axes."""
    best: tuple[int, tuple[str, ...]] | None = None
    for access, dims in factoring.accesses.items():
        if space not in _spaces_of(access, members, kernel_axes.dot):
            continue
        stored = stored_axes([f for dim in dims for f in dim], kernel_axes.axes)
        names = tuple(a.name for a in stored or () if a.name in (free, "k"))
        nbytes = region.eqns[access.eqn].inputs[access.slot].type.nbytes
        if len(names) == 2 and (best is None or nbytes > best[0]):
            best = (nbytes, names)
    return best[1] if best else None


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
    var: Var,
    dims: Dims,
    order: tuple[str, ...],
    axes: Sequence[Axis],
    space: Space,
    access: Access | None,
) -> Operand | None:
    stored = stored_axes([f for dim in dims for f in dim], axes)
    if stored is None:
        return None
    names = [a.name for a in stored]
    perm = tuple(names.index(n) for n in order if n in names)
    return Operand(
        var,
        space,
        tuple(a.size for a in stored),
        perm,
        tuple(Place(n, n in names) for n in order),
        frozenset() if access is None else frozenset({access}),
    )
