"""Small graphs that become kernels: the subjects of the tests of regions, schedules and codegen.

graph = build(softmax, (64, 1000))
"""

import math
from collections.abc import Callable, Sequence

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.graph.types import DType, TensorType

F32, BF16, I32, I64, BOOL = DType.F32, DType.BF16, DType.I32, DType.I64, DType.BOOL

Make = Callable[..., Sequence[Value] | Value]


def build(make: Make, *args, **kwargs) -> Graph:
    """The graph that `make(builder, *args)` returns the results of."""
    b = Builder()
    results = make(b, *args, **kwargs)
    return b.finish(make.__name__, results if isinstance(results, list) else [results])


def tensor(b: Builder, name: str, shape: tuple[int, ...], dtype: DType = F32) -> Var:
    return b.input(name, TensorType(shape, dtype))


def row_sum(b: Builder, x: Var, prim: str = "reduce_sum") -> Var:
    return b.reduce(prim, x, (x.type.rank - 1,), keepdims=True)


def mean(b: Builder, x: Var) -> Var:
    return b.op("mul", row_sum(b, x), b.lit(1 / x.type.dims[-1], F32))


def dot(b: Builder, x: Var, w: Var, precision: str = "highest", batch: int = 0) -> Var:
    """`x @ w` accumulated in float32, over `batch` leading dimensions."""
    both = tuple(range(batch))
    attrs = A.Dot((x.type.rank - 1,), (batch,), both, both, precision, F32)
    return b.one("dot", x, w, attrs=attrs)


# -- norms and softmax --------------------------------------------------------------------
def softmax(b: Builder, shape=(64, 1000), dtype=F32):
    x = b.convert(tensor(b, "x", shape, dtype), F32)
    shifted = b.op("exp", b.op("sub", x, row_sum(b, x, "reduce_max")))
    return b.convert(b.op("div", shifted, row_sum(b, shifted)), dtype)


def layer_norm(b: Builder, shape=(64, 1000), dtype=F32):
    x = b.convert(tensor(b, "x", shape, dtype), F32)
    weight, bias = tensor(b, "weight", shape[-1:]), tensor(b, "bias", shape[-1:])
    centred = b.op("sub", x, mean(b, x))
    var = mean(b, b.op("mul", centred, centred))
    scale = b.op("rsqrt", b.op("add", var, b.lit(1e-5, F32)))
    normed = b.op("mul", b.op("mul", centred, scale), weight)
    return b.convert(b.op("add", normed, bias), dtype)


def rms_norm(b: Builder, shape=(2, 33, 640), dtype=BF16):
    """With a residual added before, and a cast after; the sum is a result too."""
    x, residual = tensor(b, "x", shape, dtype), tensor(b, "residual", shape, dtype)
    weight = tensor(b, "weight", shape[-1:], dtype)
    total = b.convert(b.op("add", b.convert(x, F32), b.convert(residual, F32)), dtype)
    wide = b.convert(total, F32)
    square = mean(b, b.op("mul", wide, wide))
    scale = b.op("rsqrt", b.op("add", square, b.lit(1e-6, F32)))
    normed = b.convert(b.op("mul", wide, scale), dtype)
    scaled = b.op("mul", b.convert(weight, F32), b.convert(normed, F32))
    return [b.convert(scaled, dtype), total]


def group_moments(b: Builder, shape=(64, 2, 3, 130)):
    """Mean and variance over two dimensions that are not neighbours."""
    x, n = tensor(b, "x", shape), b.lit(1 / (shape[1] * shape[3]), F32)
    average = b.op("mul", b.reduce("reduce_sum", x, (1, 3), True), n)
    centred = b.op("sub", x, average)
    var = b.op("mul", b.reduce("reduce_sum", b.op("mul", centred, centred), (1, 3), True), n)
    return [b.op("mul", centred, b.op("rsqrt", var)), var]


# -- matmuls ------------------------------------------------------------------------------
def linear_gelu(b: Builder, m=96, k=160, n=200, dtype=F32, precision="highest"):
    """gelu(x @ w.T + bias) + residual, cast back."""
    x, weight = tensor(b, "x", (m, k), dtype), tensor(b, "weight", (n, k), dtype)
    bias, residual = tensor(b, "bias", (n,), dtype), tensor(b, "residual", (m, n), dtype)
    linear = b.op("add", dot(b, x, b.transpose(weight, (1, 0)), precision), b.convert(bias, F32))
    half = b.op("mul", linear, b.lit(math.sqrt(0.5), F32))
    gate = b.op("add", b.op("erf", half), b.lit(1, F32))
    gelu = b.op("mul", b.op("mul", linear, b.lit(0.5, F32)), gate)
    return b.convert(b.op("add", gelu, b.convert(residual, F32)), dtype)


def batched_dot(b: Builder, precision="highest"):
    x, w = tensor(b, "x", (3, 2, 40, 64)), tensor(b, "w", (3, 2, 64, 200))
    return b.op("mul", dot(b, x, w, precision, batch=2), b.lit(2, F32))


def stacked_dot(b: Builder, lhs, rhs, flips=(False, False)):
    """1 + lhs @ rhs, stacks of matrices that broadcast; a side that flips is stored transposed."""
    stack = tuple(map(max, lhs[:-2], rhs[:-2]))
    outer = tuple(range(len(stack)))
    operands: list[Value] = []
    for name, shape, flip in zip("xw", (lhs, rhs), flips, strict=True):
        *_, rows, cols = shape
        x = tensor(b, name, (*shape[:-2], cols, rows) if flip else shape)
        x = b.transpose(x, (*outer, len(outer) + 1, len(outer))) if flip else x
        operands.append(b.broadcast_to(x, (*stack, rows, cols)))
    attrs = A.Dot((len(stack) + 1,), (len(stack),), outer, outer, "highest", F32)
    return b.op("add", b.one("dot", *operands, attrs=attrs), b.lit(1, F32))


def gated_dot(b: Builder, precision="highest"):
    """A gate per batch: the rows of (batch, length) do not merge."""
    x, w, gate = tensor(b, "x", (2, 40, 64)), tensor(b, "w", (64, 200)), tensor(b, "g", (2, 1, 200))
    return b.op("mul", dot(b, x, w, precision), gate)


def split_heads(b: Builder, precision="highest"):
    """The columns of a matmul seen as (heads, head_dim), multiplied along head_dim."""
    x, w, cos = tensor(b, "x", (80, 64)), tensor(b, "w", (64, 256)), tensor(b, "cos", (40, 64))
    heads = b.reshape(dot(b, x, w, precision), (2, 40, 4, 64))
    return b.op("mul", heads, b.reshape(cos, (40, 1, 64)))


# -- reductions ---------------------------------------------------------------------------
def column_sum(b: Builder, shape=(5000, 700)):
    """A sum over rows with what follows it."""
    x, w = tensor(b, "x", shape), tensor(b, "w", shape[1:])
    total = b.reduce("reduce_sum", b.op("mul", x, x), (0,))
    return b.op("exp", b.op("sub", b.op("mul", total, b.lit(1e-4, F32)), b.op("abs", w)))


def row_extremes(b: Builder, shape=(3, 100001), dtype=F32):
    x = tensor(b, "x", shape, dtype)
    return [b.reduce("reduce_max", x, (1,)), b.reduce("reduce_sum", x, (1,))]


def total(b: Builder, shape=(2048, 200)):
    return b.reduce("reduce_sum", tensor(b, "x", shape), tuple(range(len(shape))))


def any_all(b: Builder, shape=(64, 256)):
    x = b.op("gt", tensor(b, "x", shape), b.lit(0, F32))
    every = b.reduce("reduce_and", x, (1,), True)
    return [b.reduce("reduce_or", x, (1,)), b.op("and", x, every)]


def arg_extremes(b: Builder, shape=(64, 300)):
    x = tensor(b, "x", shape)
    return [b.one(prim, x, attrs=A.Axis(1)) for prim in ("argmax", "argmin")]


def flat_arg_extremes(b: Builder, shape, perm, flat, dim):
    """The places along a dimension into which dimensions merge, in another order than stored."""
    x = b.reshape(b.transpose(tensor(b, "x", shape), perm), flat)
    return [b.one(prim, x, attrs=A.Axis(dim)) for prim in ("argmax", "argmin")]


def middle(b: Builder, shape=(5, 33, 130)):
    x = tensor(b, "x", shape)
    return b.op("sub", x, b.reduce("reduce_max", x, (1,), True))


# -- pointwise ----------------------------------------------------------------------------
def chain(b: Builder, shape=(100, 300), dtype=F32):
    x, y = tensor(b, "x", shape, dtype), tensor(b, "y", shape, dtype)
    product = b.op("mul", x, y)
    return b.op("add", b.op("max", product, b.lit(0, dtype)), x)


def two_results(b: Builder, shape=(130, 70)):
    x = tensor(b, "x", shape)
    return [b.op("add", x, b.lit(1, F32)), b.op("mul", x, b.lit(2, F32))]


def causal_mask(b: Builder, shape=(4, 40, 40), dtype=F32):
    x, square = tensor(b, "x", shape, dtype), shape[-2:]
    i, j = b.iota(square, I32, 0), b.iota(square, I32, 1)
    return b.op("select", b.op("ge", i, j), x, b.lit(0, dtype))


def mixed_masks(b: Builder, shape=(64, 256), dtype=BF16):
    """Masks of rows, of columns, computed, and compared from 16-bit values, meet."""
    x = tensor(b, "x", shape, dtype)
    row, col = tensor(b, "row", (shape[0], 1), BOOL), tensor(b, "col", (1, shape[1]), BOOL)
    i, j = b.iota(shape, I32, 0), b.iota(shape, I32, 1)
    mask = b.op("and", b.op("and", b.op("ge", i, j), col), row)
    positive = b.op("gt", x, b.lit(0, dtype))
    return [
        b.op("select", mask, b.lit(0, dtype), x),
        b.op("select", b.op("and", positive, mask), x, b.lit(-math.inf, dtype)),
        b.op("or", positive, mask),
    ]


def with_transpose(b: Builder, n=64):
    x = tensor(b, "x", (n, n))
    return b.op("add", x, b.transpose(x, (1, 0)))


def outer_sum(b: Builder, n=64):
    x = tensor(b, "x", (n,))
    return b.op("add", b.reshape(x, (n, 1)), b.reshape(x, (1, n)))


def permuted_cube(b: Builder, shape=(8, 8, 8), perm=(2, 0, 1)):
    y = tensor(b, "y", tuple(shape[p] for p in perm))
    return b.op("mul", b.transpose(tensor(b, "x", shape), perm), y)


def merged_views(b: Builder, batch=2, rows=32, cols=96):
    """(batch * rows, cols) and (batch, rows, cols) views of one value."""
    x, y = tensor(b, "x", (batch * rows, cols)), tensor(b, "y", (batch, rows, cols))
    product = b.op("mul", b.reshape(b.op("exp", x), (batch, rows, cols)), y)
    return b.op("add", b.reshape(product, (batch * rows, cols)), x)
