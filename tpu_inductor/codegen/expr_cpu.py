"""Spellings for XLA:CPU alone: convolutions by the method that `conv_methods` chose for them.

conv(x, w; method=product)   ->  lax.dot_general(windows of x, w)
conv(x, w; method=taps)      ->  sum(shifted x * weight)
"""

from collections.abc import Sequence
from math import prod

from tpu_inductor.codegen.expr import spell
from tpu_inductor.codegen.expr_literal import HALF, dtype_text, ints
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.conv_methods import MAX_TAPS
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.types import DType


def spell_for_cpu(eqn: Eqn, operands: Sequence[str]) -> str:
    """The expression of `eqn` over `operands`, as `spell` gives it but for convolutions."""
    if not isinstance(eqn.attrs, A.Conv) or eqn.attrs.method == "library":
        return spell(eqn, operands)
    text = _depthwise(eqn, operands) if eqn.attrs.method == "taps" else _product(eqn, operands)
    dtype = eqn.out.type.dtype
    return f"{text}.astype({dtype_text(dtype)})" if dtype in HALF else text


def _accumulator(eqn: Eqn) -> str:
    dtype = eqn.out.type.dtype
    return dtype_text(DType.F32 if dtype in HALF else dtype)


def _padded(eqn: Eqn, x: str) -> str:
    """`x` with its edges, and with zeros between its elements where they are spread."""
    attrs = eqn.attrs
    assert isinstance(attrs, A.Conv)
    between = [d - 1 for d in attrs.lhs_dilation]
    edges = [(*pair, n) for pair, n in zip(attrs.padding, between, strict=True)]
    if not any(n for edge in edges for n in edge):
        return x
    return f"lax.pad({x}, {x}.dtype.type(0), {((0, 0, 0), *edges, (0, 0, 0))})"


# -- as a matrix product -------------------------------------------------------------------------
def _product(eqn: Eqn, operands: Sequence[str]) -> str:
    """(n, *out, windows) times (out, windows); a window is (*window, in), or (in, *window)."""
    attrs, (x, w) = eqn.attrs, operands
    assert isinstance(attrs, A.Conv)
    out, dtype = eqn.out.type, eqn.out.type.dtype
    outputs, _, *window = eqn.inputs[1].type.dims
    weights = w
    if attrs.method == "product" and window != [1] * len(window):
        weights = f"jnp.transpose({w}, {(0, *range(2, len(window) + 2), 1)})"
    weights = f"jnp.reshape({weights}, {ints((outputs, -1))})"
    precise = f"precision=lax.Precision.{attrs.precision.upper()}, " if dtype is DType.F32 else ""
    contract = f"((({out.rank - 1},), (1,)), ((), ()))"
    return (
        f"lax.dot_general({_windows(eqn, _padded(eqn, x))}, {weights}, {contract}, {precise}"
        f"preferred_element_type={_accumulator(eqn)})"
    )


def _windows(eqn: Eqn, x: str) -> str:
    """Every window of the padded `x` as a row: one slice a tap, or, with few windows, one each."""
    attrs = eqn.attrs
    assert isinstance(attrs, A.Conv)
    batch, *places, _ = eqn.out.type.dims
    _, channels, *window = eqn.inputs[1].type.dims
    if prod(window) == 1:
        return _slice(eqn, x, places, attrs.strides, ["0"] * len(window))
    by_tap = prod(window) <= MAX_TAPS
    inner, outer = (places, window) if by_tap else (window, places)
    steps = (attrs.strides, attrs.rhs_dilation)
    step, jump = steps if by_tap else steps[::-1]
    part = _slice(eqn, "x", inner, step, [f"i{d} * {n}" for d, n in enumerate(jump)])
    parts = f"[{part} {_loops(outer)}]"
    if by_tap and attrs.method == "product":
        return f"(lambda x: jnp.concatenate({parts}, axis=-1))({x})"
    shape = ints((batch, *places, prod(window) * channels))
    axis = -1 if by_tap else 1
    return f"(lambda x: jnp.reshape(jnp.stack({parts}, axis={axis}), {shape}))({x})"


def _loops(extents: Sequence[int]) -> str:
    return " ".join(f"for i{d} in range({n})" for d, n in enumerate(extents))


def _slice(
    eqn: Eqn, x: str, extents: Sequence[int], steps: Sequence[int], starts: Sequence[str]
) -> str:
    """`extents` elements of `x`, `steps` apart, of each spatial dimension from `starts` on."""
    batch, channels = eqn.out.type.dims[0], eqn.inputs[0].type.dims[-1]
    spans = [(n - 1) * step + 1 for n, step in zip(extents, steps, strict=True)]
    limits = [f"{start} + {span}" for start, span in zip(starts, spans, strict=True)]
    return (
        f"lax.slice({x}, (0, {', '.join(starts)}, 0), "
        f"({batch}, {', '.join(limits)}, {channels}), {ints((1, *steps, 1))})"
    )


# -- tap by tap ------------------------------------------------------------------------------
def _depthwise(eqn: Eqn, operands: Sequence[str]) -> str:
    """The sum over the window of `x`, shifted, times the weights of that tap; row by row.

    Without the loop XLA would compute every tap anew in each fusion that reads the result.
    """
    attrs, (x, w), dtype = eqn.attrs, operands, eqn.out.type.dtype
    assert isinstance(attrs, A.Conv)
    acc = _accumulator(eqn)
    channels, _, *window = eqn.inputs[1].type.dims
    wide = f".astype({acc})" if dtype in HALF else ""
    order = (*range(1, len(window) + 1), 0)
    weights = f"jnp.transpose({w}{wide}.reshape({ints((channels, *window))}), {order})"
    reach = (window[0] - 1) * attrs.rhs_dilation[0] + 1
    rows = f"lax.dynamic_slice_in_dim(x, row * {attrs.strides[0]}, {reach}, 1)"
    body = f"lax.dynamic_update_slice_in_dim(out, (lambda x: {_row_of_taps(eqn)})({rows}), row, 1)"
    start = f"jnp.zeros({eqn.out.type.dims}, {acc})"
    loop = f"lax.fori_loop(0, {eqn.out.type.dims[1]}, lambda row, out: {body}, {start})"
    return f"(lambda x, w: {loop})({_padded(eqn, x)}{wide}, {weights})"


def _row_of_taps(eqn: Eqn) -> str:
    """One row of the result, of the rows of `x` that its windows reach."""
    attrs = eqn.attrs
    assert isinstance(attrs, A.Conv)
    channels, _, *window = eqn.inputs[1].type.dims
    extents = [1, *eqn.out.type.dims[2:-1]]
    starts = [f"i{d} * {n}" for d, n in enumerate(attrs.rhs_dilation)]
    shifted = _slice(eqn, "x", extents, (1, *attrs.strides[1:]), starts)
    # Not `w[i0, i1]`: jnp takes milliseconds to trace each indexing.
    places = [f"i{d}" for d in range(len(window))]
    ends = ", ".join(f"{i} + 1" for i in places)
    weight = f"lax.slice(w, ({', '.join(places)}, 0), ({ends}, {channels}))"
    return f"sum({shifted} * {weight} {_loops(window)})"
