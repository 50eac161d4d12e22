"""The spellings that only XLA takes: data movement, indexing, scans, sort, conv."""

from collections.abc import Sequence

from tpu_inductor.codegen.expr_literal import (
    HALF,
    Spelling,
    dtype_text,
    ints,
    typed_operands,
)
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.types import DType


def _slice(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,), attrs = typed_operands(eqn, ops), eqn.attrs
    assert isinstance(attrs, A.Slice)
    strides = f", {ints(attrs.stride)}" if any(s != 1 for s in attrs.stride) else ""
    return f"lax.slice({x}, {ints(attrs.start)}, {ints(attrs.limit)}{strides})"


def _pad(eqn: Eqn, ops: Sequence[str]) -> str:
    (x, value), attrs = typed_operands(eqn, ops), eqn.attrs
    assert isinstance(attrs, A.Pad)
    edges = tuple(zip(attrs.low, attrs.high, attrs.interior, strict=True))
    return f"lax.pad({x}, {value}, {edges})"


def _concat(eqn: Eqn, ops: Sequence[str]) -> str:
    assert isinstance(eqn.attrs, A.Axis)
    return f"jnp.concatenate([{', '.join(ops)}], axis={eqn.attrs.dim})"


def _rev(eqn: Eqn, ops: Sequence[str]) -> str:
    assert isinstance(eqn.attrs, A.Dims)
    return f"lax.rev({typed_operands(eqn, ops)[0]}, {eqn.attrs.dims})"


# -- indexing -------------------------------------------------------------------
def _indexed_first(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (*dims, *(d for d in range(rank) if d not in dims))


def _gather(eqn: Eqn, ops: Sequence[str]) -> str:
    (x, *indices), attrs = typed_operands(eqn, ops), eqn.attrs
    assert isinstance(attrs, A.Gather)
    order = _indexed_first(attrs.dims, eqn.inputs[0].type.rank)
    if order != tuple(range(len(order))):
        x = f"jnp.transpose({x}, {order})"
    place = ", ".join(indices)
    return f'{x}.at[{place}].get(mode="fill", wrap_negative_indices=False)'


def _scatter(eqn: Eqn, ops: Sequence[str]) -> str:
    (x, updates, *indices), attrs = typed_operands(eqn, ops), eqn.attrs
    assert isinstance(attrs, A.Scatter)
    table = _ON_BOOL if eqn.out.type.dtype is DType.BOOL else _MODES
    order = _indexed_first(attrs.dims, eqn.out.type.rank)
    moved = order != tuple(range(len(order)))
    target = f"jnp.transpose({x}, {order})" if moved else x
    text = (
        f"{target}.at[{', '.join(indices)}].{table[attrs.mode]}"
        f'({updates}, mode="drop", wrap_negative_indices=False)'
    )
    back = tuple(order.index(d) for d in range(len(order)))
    return f"jnp.transpose({text}, {back})" if moved else text


def _check(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,), attrs = typed_operands(eqn, ops), eqn.attrs
    assert isinstance(attrs, A.Check)
    distance = f"({x}.astype(jnp.int64) - {attrs.start}).astype(jnp.uint64)"
    if attrs.ignored is not None:
        distance = f"jnp.where({x} == {attrs.ignored}, 0, {distance})"
    return f"jnp.max({distance}, initial=0)"


_MODES = {"set": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}
_ON_BOOL = {"set": "set", "add": "max", "mul": "min", "max": "max", "min": "min"}


# -- scans and sort -------------------------------------------------------------
def _cumulative(function: str, computes_in: dict[DType, DType]) -> Spelling:
    """A scan, in another type where the element type cannot or should not carry it."""

    def text(eqn: Eqn, ops: Sequence[str]) -> str:
        (x,), attrs, dtype = typed_operands(eqn, ops), eqn.attrs, eqn.out.type.dtype
        assert isinstance(attrs, A.Axis)
        if dtype not in computes_in:
            return f"{function}({x}, axis={attrs.dim})"
        wide = f"{x}.astype({dtype_text(computes_in[dtype])})"
        return f"{function}({wide}, axis={attrs.dim}).astype({dtype_text(dtype)})"

    return text


_ADDS: dict[DType, DType] = dict.fromkeys(HALF, DType.F32)
_ORDERS: dict[DType, DType] = {DType.BOOL: DType.I8}


def _sort(eqn: Eqn, ops: Sequence[str]) -> str:
    (x,), attrs, (values, _) = typed_operands(eqn, ops), eqn.attrs, eqn.outputs
    assert isinstance(attrs, A.Sort)
    places = f"lax.broadcasted_iota(jnp.int32, {values.type.dims}, {attrs.dim})"
    along = f"dimension={attrs.dim}, num_keys=1"
    if not attrs.descending:
        found = f"lax.sort(({x}, {places}), {along})"
    elif values.type.dtype is DType.F64:
        found = _sort_mirrored(f"({x}, {places})", attrs.dim, along)
    else:
        key = _falling(x) if values.type.dtype.is_float else f"~{x}"
        found = f"lax.sort(({key}, {places}, {x}), {along})[:0:-1]"
    return f"(lambda values, places: (values, places.astype(jnp.int64)))(*{found})"


def _falling(x: str) -> str:
    """Integers that fall where the floats rise, so that ties keep their order when descending.

    They are made of the bits, with 0.0 for -0.0 and one NaN, above infinity.
    """
    one_of_each = f"jnp.where({x} == 0, 0, jnp.where({x} != {x}, jnp.nan, {x}))"
    bits = f"lax.bitcast_convert_type({one_of_each}.astype(jnp.float32), jnp.int32)"
    return f"(lambda bits: ~(bits ^ (bits >> 31 & 0x7FFFFFFF)))({bits})"


def _sort_mirrored(operands: str, dim: int, along: str) -> str:
    """The mirror image is sorted and mirrored back: a TPU cannot read the bits of float64."""
    mirrored = f"tuple(lax.rev(r, ({dim},)) for r in {operands})"
    return f"(lax.rev(r, ({dim},)) for r in lax.sort({mirrored}, {along}))"


# -- contractions ---------------------------------------------------------------
def _conv(eqn: Eqn, ops: Sequence[str]) -> str:
    (x, w), attrs, dtype = typed_operands(eqn, ops), eqn.attrs, eqn.out.type.dtype
    assert isinstance(attrs, A.Conv)
    parts = [x, w, f"{ints(attrs.strides)}", f"{attrs.padding}"]
    if any(d != 1 for d in attrs.lhs_dilation):
        parts.append(f"lhs_dilation={ints(attrs.lhs_dilation)}")
    if any(d != 1 for d in attrs.rhs_dilation):
        parts.append(f"rhs_dilation={ints(attrs.rhs_dilation)}")
    if attrs.groups != 1:
        parts.append(f"feature_group_count={attrs.groups}")
    if attrs.channels_last:
        spatial = "DHW"[-len(attrs.strides) :]
        orders = (f"N{spatial}C", f"OI{spatial}", f"N{spatial}C")
        parts.append(f"dimension_numbers={orders}")
    parts.extend(_precision(dtype, attrs.precision))
    if dtype in HALF:
        parts.append("preferred_element_type=jnp.float32")
    text = f"lax.conv_general_dilated({', '.join(parts)})"
    return f"{text}.astype({dtype_text(dtype)})" if dtype in HALF else text


def _precision(dtype: DType, precision: str) -> list[str]:
    return [f"precision=lax.Precision.{precision.upper()}"] if dtype is DType.F32 else []


SPECIAL: dict[str, Spelling] = {
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "rev": _rev,
    "gather": _gather,
    "scatter": _scatter,
    "check": _check,
    "cumsum": _cumulative("lax.cumsum", _ADDS),
    "cumprod": _cumulative("lax.cumprod", _ADDS),
    "cummax": _cumulative("lax.cummax", _ORDERS),
    "cummin": _cumulative("lax.cummin", _ORDERS),
    "sort": _sort,
    "conv": _conv,
}
"""The rows of `expr.SPELL` with a spelling of their own."""
