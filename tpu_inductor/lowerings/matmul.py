"""Matrix products: every one becomes a `dot` that keeps its operands' dimensions.

Half floats accumulate in float32 and narrow integers in int32; the result, with its bias and
scale, rounds once. float32 products follow `torch.get_float32_matmul_precision()`.
"""

import torch

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

Number = int | float | Value
Dims = tuple[int, ...]

_PRECISION = {"highest": "highest", "high": "high", "medium": "default"}
_NARROW = (DType.I8, DType.U8, DType.I16, DType.U16)


def dot_precision(dtype: DType) -> str:
    """The precision of products of `dtype`: torch's global setting for float32."""
    if dtype is DType.F32:
        return _PRECISION[torch.get_float32_matmul_precision()]
    return "default"


def contract(
    b: Builder, x: Value, y: Value, over: tuple[Dims, Dims], batch: tuple[Dims, Dims] = ((), ())
) -> Var:
    """Sums over `over[0]` of `x` with `over[1]` of `y`, in the type that accumulates.

    Result dimensions: batch, then what is left of `x`, then what is left of `y`.
    """
    x, y = b.tensor(x), b.tensor(y)
    dtype = x.type.dtype
    wide = DType.I32 if dtype in _NARROW else accumulator(dtype)
    attrs = A.Dot(*over, *batch, dot_precision(dtype), wide)
    return b.one("dot", x, y, attrs=attrs)


def _matmul(b: Builder, x: Value, y: Value) -> Var:
    """(n, k) by (k, m), or the same with one batch dimension in front of each."""
    if x.type.rank == 3:
        return contract(b, x, y, ((2,), (1,)), ((0,), (0,)))
    return contract(b, x, y, ((1,), (0,)))


def _scale(b: Builder, x: Value, factor: Number) -> Value:
    if isinstance(factor, int | float):
        return x if factor == 1 else b.op("mul", x, b.lit(factor, x.type.dtype))
    return b.op("mul", x, b.convert(factor, x.type.dtype))


def _add_product(b: Builder, x: Value, product: Var, beta: Number, alpha: Number) -> Value:
    """beta * x + alpha * product, rounded once. A beta of 0 hides what `x` holds, NaN too."""
    out = _scale(b, product, alpha)
    if not (isinstance(beta, int | float) and beta == 0):
        out = b.op("add", out, _scale(b, b.convert(x, product.type.dtype), beta))
    return _finish(b, out)


def _finish(b: Builder, x: Value) -> Value:
    return b.broadcast_to(b.convert(x, b.out[0].dtype), b.out[0].shape)


@lowering(aten.mm.default, aten._int_mm.default, aten.bmm.default)
def mm(b: Builder, x: Value, mat2: Value) -> Value:
    return _finish(b, _matmul(b, x, mat2))


@lowering(aten.mm.dtype, aten.bmm.dtype)
def mm_dtype(b: Builder, x: Value, mat2: Value, out_dtype: torch.dtype) -> Value:
    return _finish(b, _matmul(b, x, mat2))


@lowering(aten.addmm.default)
def addmm(
    b: Builder, x: Value, mat1: Value, mat2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    return _add_product(b, x, _matmul(b, mat1, mat2), beta, alpha)


@lowering(aten.addmm.dtype)
def addmm_dtype(
    b: Builder,
    x: Value,
    mat1: Value,
    mat2: Value,
    out_dtype: torch.dtype,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> Value:
    return _add_product(b, x, _matmul(b, mat1, mat2), beta, alpha)


@lowering(aten.baddbmm.default)
def baddbmm(
    b: Builder, x: Value, batch1: Value, batch2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    return _add_product(b, x, _matmul(b, batch1, batch2), beta, alpha)


@lowering(aten.addbmm.default)
def addbmm(
    b: Builder, x: Value, batch1: Value, batch2: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    """The batch is summed too, so it is contracted."""
    return _add_product(b, x, contract(b, batch1, batch2, ((0, 2), (0, 1))), beta, alpha)


@lowering(aten.dot.default)
def dot(b: Builder, x: Value, tensor: Value) -> Value:
    return _finish(b, contract(b, x, tensor, ((0,), (0,))))


@lowering(aten.vdot.default)
def vdot(b: Builder, x: Value, other: Value) -> Value:
    return dot(b, x, other)


@lowering(aten.mv.default)
def mv(b: Builder, x: Value, vec: Value) -> Value:
    return _finish(b, contract(b, x, vec, ((1,), (0,))))


@lowering(aten.addmv.default)
def addmv(
    b: Builder, x: Value, mat: Value, vec: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    return _add_product(b, x, contract(b, mat, vec, ((1,), (0,))), beta, alpha)


@lowering(aten.linear.default)
def linear(b: Builder, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """input (..., k) by weight (m, k), or (k,): the leading dimensions stay as they are."""
    product = contract(b, input, weight, ((input.type.rank - 1,), (weight.type.rank - 1,)))
    if bias is None:
        return _finish(b, product)
    return _finish(b, b.op("add", product, b.convert(bias, product.type.dtype)))


@lowering(aten.linear_backward.default)
def linear_backward(
    b: Builder, x: Value, grad_output: Value, weight: Value, output_mask: list[bool]
) -> tuple[Value | None, ...]:
    """Gradients of x (..., k), weight (m, k) and bias (m,) from grad_output (..., m)."""
    rows = tuple(range(x.type.rank - 1))
    last = x.type.rank - 1
    grad_x = grad_w = grad_b = None
    if output_mask[0]:
        grad_x = b.convert(contract(b, grad_output, weight, ((last,), (0,))), x.type.dtype)
    if output_mask[1]:
        grad_w = b.convert(contract(b, grad_output, x, (rows, rows)), weight.type.dtype)
    if output_mask[2]:
        wide = b.convert(grad_output, accumulator(grad_output.type.dtype))
        grad_b = b.convert(b.reduce("reduce_sum", wide, rows), grad_output.type.dtype)
    return grad_x, grad_w, grad_b


# -- three operands ------------------------------------------------------------
Named = tuple[Value, tuple[int, ...]]
"""A value, and which dimension of a common space each of its own dimensions is."""


@lowering(aten._trilinear.default)
def trilinear(
    b: Builder,
    i1: Value,
    i2: Value,
    i3: Value,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Value:
    """The product of three tensors, each with some dimensions of a space, summed over others."""
    rank = i1.type.rank + len(expand1)
    first, second, third = (
        (x, tuple(d for d in range(rank) if d not in lacks))
        for x, lacks in ((i1, expand1), (i2, expand2), (i3, expand3))
    )
    summed = frozenset(sumdim)
    pair = _einsum(b, first, second, summed.difference(third[1]))
    out, dims = _einsum(b, pair, third, summed)
    order = sorted(range(len(dims)), key=lambda place: dims[place])
    return _finish(b, b.transpose(out, order))


def _einsum(b: Builder, x: Named, y: Named, summed: frozenset[int]) -> Named:
    """The product of `x` and `y` over their dimensions, without those that are summed."""
    wide = accumulator(x[0].type.dtype)
    x, y = _sum_alone(b, x, summed.difference(y[1])), _sum_alone(b, y, summed.difference(x[1]))
    shared = [d for d in x[1] if d in y[1]]
    closed, kept = ([d for d in shared if (d in summed) is done] for done in (True, False))
    over, batch = (
        (tuple(x[1].index(d) for d in dims), tuple(y[1].index(d) for d in dims))
        for dims in (closed, kept)
    )
    product = contract(b, b.convert(x[0], wide), b.convert(y[0], wide), over, batch)
    free = [d for d in (*x[1], *y[1]) if d not in shared]
    return product, (*kept, *free)


def _sum_alone(b: Builder, x: Named, dims: frozenset[int]) -> Named:
    """`x` summed over those of `dims` that it has."""
    value, names = x
    places = [i for i, d in enumerate(names) if d in dims]
    total = b.reduce("reduce_sum", b.convert(value, accumulator(value.type.dtype)), places)
    return (total if places else value), tuple(d for d in names if d not in dims)
