"""Random small graphs of primitives, and inputs for them, for differential tests.

    @given(graphs(), st.integers(0, 99))
    def test(graph, seed):
        want = interp.run(graph, inputs_for(graph, seed))

Graphs are chains like those of models: pointwise over broadcasts, normalisations that read a value
twice, reductions, stacked dots, reshapes, slices. Every value that nothing reads is an output, and
some that are read, or of which another output is a view.
"""

import math
from collections.abc import Callable, Sequence

import torch
from hypothesis import strategies as st

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder, broadcast_shapes
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType, Shape, TensorType

DTYPES = (DType.F32, DType.BF16, DType.F64, DType.I32, DType.I64, DType.BOOL)
EXTENTS = (1, 7, 8, 9, 127, 129)
MAX_SIZE = 40_000

FLOAT_UNARY = ("neg", "abs", "exp", "tanh", "logistic", "floor", "sqrt", "sin", "erf", "is_nan")
FLOAT_BINARY = ("add", "sub", "mul", "div", "max", "min", "lt", "ge", "eq")
INT_UNARY = ("neg", "abs", "sign", "not")
INT_BINARY = ("add", "sub", "mul", "max", "min", "and", "xor", "lt", "eq")
BOOL_UNARY = ("not",)
BOOL_BINARY = ("and", "or", "xor", "eq")

Draw = Callable[[st.SearchStrategy], object]
Step = Callable[[Draw, Builder, list[Var]], Value | None]


def inputs_for(graph: Graph, seed: int, special: bool = False) -> list[torch.Tensor]:
    """Tensors of the input types of `graph`; with `special`, a few are NaN, infinite or extreme."""
    rng = torch.Generator().manual_seed(seed)
    return [_tensor(v.type, rng, special) for v in graph.inputs]


def _tensor(type: TensorType, rng: torch.Generator, special: bool) -> torch.Tensor:
    dtype, shape = TORCH_DTYPE[type.dtype], type.dims
    if type.dtype is DType.BOOL:
        return torch.randint(0, 2, shape, generator=rng).to(dtype)
    if type.dtype.is_float:
        out = torch.randn(shape, generator=rng).to(dtype)
        edges = [math.nan, math.inf, -math.inf, -0.0, 0.0]
    else:
        out = torch.randint(-9, 10, shape, generator=rng).to(dtype)
        edges = [torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0]
    if special and out.numel():
        flat = out.reshape(-1)
        places = torch.randint(0, flat.numel(), (len(edges),), generator=rng)
        flat[places] = torch.tensor(edges, dtype=dtype)
    return out


@st.composite
def graphs(
    draw: Draw,
    max_steps: int = 8,
    dtypes: Sequence[DType] = DTYPES,
    extents: Sequence[int] = EXTENTS,
    max_rank: int = 4,
    max_size: int = MAX_SIZE,
) -> Graph:
    """A well-typed graph of 1 to `max_steps` steps over inputs of `dtypes` and `extents`."""
    b = Builder()
    rank = draw(st.integers(0, max_rank))
    shape = draw_shape(draw, rank, extents, max_size)
    first = draw(st.sampled_from(list(dtypes)))
    values: list[Var] = [b.input("x", TensorType(shape, first))]
    for i in range(draw(st.integers(0, 2))):
        dtype = draw(st.sampled_from([first, first, *dtypes]))
        values.append(b.input(f"arg{i}", TensorType(_partner(draw, shape), dtype)))
    for _ in range(draw(st.integers(1, max_steps))):
        made = draw(st.sampled_from(STEPS))(draw, b, values)
        if isinstance(made, Var) and 0 < made.type.size <= max_size and made not in values:
            values.append(made)
    read = {v for eqn in b.sink.eqns for v in eqn.inputs}
    unread = [v for eqn in b.sink.eqns for v in eqn.outputs if v not in read]
    extra = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return b.finish("random", [*dict.fromkeys([*unread, *extra])])


def draw_shape(draw: Draw, rank: int, extents: Sequence[int], max_size: int) -> Shape:
    """A shape of at most `max_size` elements."""
    shape: list[int] = []
    for _ in range(rank):
        room = max_size // math.prod(shape)
        shape.append(draw(st.sampled_from([e for e in extents if e <= room] or [1])))
    return tuple(shape)


def _partner(draw: Draw, shape: Shape) -> Shape:
    """A shape that broadcasts to `shape`: fewer dimensions, and ones among them."""
    kept = shape[draw(st.integers(0, len(shape))) :] if draw(st.booleans()) else shape
    return tuple(1 if draw(st.integers(0, 3)) == 0 else d for d in kept)


# -- steps: each appends equations and returns a new value, or None if nothing fits ---------------
def _unary(draw: Draw, b: Builder, values: list[Var]) -> Value:
    x = draw(st.sampled_from(values))
    return b.op(draw(st.sampled_from(_prims(x.type.dtype, 0))), x)


def _binary(draw: Draw, b: Builder, values: list[Var]) -> Value:
    x = draw(st.sampled_from(values))
    fits = [v for v in values if _broadcasts(v.type, x.type)]
    y = draw(st.sampled_from(fits))
    if draw(st.integers(0, 3)) == 0:
        y = b.lit(draw(st.sampled_from([0, 1, -1, 2, 0.5])), x.type.dtype)
    if draw(st.booleans()):
        x, y = y, x
    if not isinstance(x, Var) and not isinstance(y, Var):
        return None
    dtype = x.type.dtype
    return b.op(draw(st.sampled_from(_prims(dtype, 1))), x, y)


def _prims(dtype: DType, arity: int) -> tuple[str, ...]:
    if dtype is DType.BOOL:
        return (BOOL_UNARY, BOOL_BINARY)[arity]
    return ((FLOAT_UNARY, FLOAT_BINARY) if dtype.is_float else (INT_UNARY, INT_BINARY))[arity]


def _broadcasts(small: TensorType, big: TensorType) -> bool:
    if small.dtype is not big.dtype or small.rank > big.rank:
        return False
    pairs = zip(reversed(small.shape), reversed(big.shape), strict=False)
    return all(s in (1, d) for s, d in pairs)


def _select(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    x = draw(st.sampled_from(values))
    masks = [v for v in values if _broadcasts(v.type, x.type.with_dtype(DType.BOOL))]
    if not masks:
        return None
    return b.op("select", draw(st.sampled_from(masks)), x, b.lit(0, x.type.dtype))


def _convert(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    """Not float to integer: out of range it is unspecified."""
    x = draw(st.sampled_from(values))
    to = draw(st.sampled_from(DTYPES))
    if x.type.dtype.is_float and to.is_int:
        return None
    return b.convert(x, to)


def _transpose(draw: Draw, b: Builder, values: list[Var]) -> Value:
    x = draw(st.sampled_from(values))
    return b.transpose(x, draw(st.permutations(range(x.type.rank))))


def _reshape(draw: Draw, b: Builder, values: list[Var]) -> Value:
    """Merges two neighbouring dimensions, splits one, flattens, or adds a dimension of 1."""
    x = draw(st.sampled_from(values))
    shape = list(x.type.dims)
    if not shape or draw(st.integers(0, 3)) == 0:
        return b.expand_dims(x, (draw(st.integers(0, len(shape))),))
    at = draw(st.integers(0, len(shape) - 1))
    splits = [f for f in (2, 3, 7) if shape[at] % f == 0 and shape[at] > f]
    if splits and draw(st.booleans()):
        factor = draw(st.sampled_from(splits))
        return b.reshape(x, (*shape[:at], factor, shape[at] // factor, *shape[at + 1 :]))
    if len(shape) > 1 and draw(st.booleans()):
        at = min(at, len(shape) - 2)
        return b.reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    return b.reshape(x, (math.prod(shape),))


def _reduce(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    x = draw(st.sampled_from(values))
    if not x.type.rank:
        return None
    dims = draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1))
    prims = ("reduce_or", "reduce_and")
    if x.type.dtype is not DType.BOOL:
        prims = ("reduce_sum", "reduce_sum", "reduce_max", "reduce_min")
    return b.reduce(draw(st.sampled_from(prims)), x, sorted(dims), draw(st.booleans()))


def _arg_reduce(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    """The places of extremes along one dimension, along several that merge, or along all."""
    x = draw(st.sampled_from(values))
    if not x.type.rank or x.type.dtype is DType.BOOL:
        return None
    x = b.transpose(x, draw(st.permutations(range(x.type.rank))))
    first = draw(st.integers(0, x.type.rank - 1))
    last = draw(st.integers(first, x.type.rank - 1))
    shape = x.type.dims
    merged = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    prim = draw(st.sampled_from(["argmax", "argmin"]))
    return b.one(prim, b.reshape(x, merged), attrs=A.Axis(first))


def _slice(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    x = draw(st.sampled_from(values))
    if not x.type.rank:
        return None
    dim = draw(st.integers(0, x.type.rank - 1))
    extent = x.type.dims[dim]
    start = draw(st.integers(0, extent - 1))
    limit = draw(st.integers(start + 1, extent))
    return b.slice(x, dim, start, limit, draw(st.sampled_from([1, 1, 2, 3])))


def _concat(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    """Values that differ along one dimension at most; a value may meet itself."""
    x = draw(st.sampled_from(values))
    if not x.type.rank:
        return None
    dim = draw(st.integers(0, x.type.rank - 1))

    def others(v: Var) -> tuple[object, ...]:
        return v.type.dtype, v.type.shape[:dim], v.type.shape[dim + 1 :], v.type.rank

    fits = [v for v in values if others(v) == others(x)]
    return b.concat([x, *draw(st.lists(st.sampled_from(fits), min_size=1, max_size=2))], dim)


def _pad(draw: Draw, b: Builder, values: list[Var]) -> Value:
    """Adds elements around and between; a negative edge takes one away."""
    x = draw(st.sampled_from(values))
    edge = st.sampled_from([0, 0, 1, 3])
    low, high = ([draw(edge) for _ in x.type.dims] for _ in range(2))
    for dim, extent in enumerate(x.type.dims):
        if extent > 1 and draw(st.integers(0, 3)) == 0:
            low[dim] = -1
    between = tuple(draw(st.sampled_from([0, 0, 0, 1])) for _ in x.type.dims)
    fill = b.lit(draw(st.sampled_from([0, 1, -1])), x.type.dtype)
    return b.one("pad", x, fill, attrs=A.Pad(tuple(low), tuple(high), between))


def _stacked_dot(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    """A stack of matrices by a new one; either may lack axes of the stack, or be transposed."""
    matrices = [v for v in values if v.type.dtype.is_float and v.type.rank > 1]
    if not matrices:
        return None
    x = draw(st.sampled_from(matrices))
    if draw(st.booleans()):
        x = b.transpose(x, (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))
    *stack, rows, k = x.type.dims
    cols = draw(st.sampled_from([k, rows, 1, 5, 8]))
    own = [draw(st.sampled_from([n, n, 1, 3] if n == 1 else [n, 1])) for n in stack]
    own = [*([draw(st.sampled_from([2, 3]))] if draw(st.integers(0, 2)) == 0 else []), *own]
    own = own[draw(st.integers(0, len(own))) :] if draw(st.booleans()) else own
    shared = broadcast_shapes(tuple(stack), tuple(own))
    if math.prod(shared) * rows * k * cols > MAX_SIZE * 100:
        return None
    dtype, matrix = x.type.dtype, (cols, k) if draw(st.booleans()) else (k, cols)
    y = b.input("w", TensorType((*own, *matrix), dtype))
    sides = [(x, rows), (y, cols)] if draw(st.booleans()) else [(y, cols), (x, rows)]
    lhs, rhs = (b.broadcast_to(v, (*shared, *v.type.shape[-2:])) for v, _ in sides)
    lhs_k, rhs_k = (len(shared) + (v is x or matrix == (cols, k)) for v, _ in sides)
    batch = tuple(range(len(shared)))
    attrs = A.Dot((lhs_k,), (rhs_k,), batch, batch, "highest", dtype)
    return b.one("dot", lhs, rhs, attrs=attrs)


def _dot(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    """A contraction of two float values that share an extent, which may be one value twice."""
    floats = [v for v in values if v.type.dtype.is_float and v.type.rank]
    if not floats:
        return None
    x = draw(st.sampled_from(floats))
    fits = [
        (y, i, j)
        for y in floats
        for i in range(x.type.rank)
        for j in range(y.type.rank)
        if y.type.dtype is x.type.dtype and x.type.shape[i] == y.type.shape[j]
    ]
    y, i, j = draw(st.sampled_from(fits))
    if x.type.size * y.type.size > MAX_SIZE * x.type.dims[i] ** 2:
        return None
    return b.one("dot", x, y, attrs=A.Dot((i,), (j,), (), (), "highest", x.type.dtype))


def _float_rows(draw: Draw, values: list[Var]) -> Var | None:
    rows = [v for v in values if v.type.dtype.is_float and v.type.rank]
    return draw(st.sampled_from(rows)) if rows else None


def _softmax(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    x = _float_rows(draw, values)
    if x is None:
        return None
    dim = draw(st.integers(0, x.type.rank - 1))
    wide = b.convert(x, DType.F32)
    shifted = b.op("exp", b.op("sub", wide, b.reduce("reduce_max", wide, (dim,), True)))
    total = b.reduce("reduce_sum", shifted, (dim,), True)
    return b.convert(b.op("div", shifted, total), x.type.dtype)


def _layer_norm(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    x = _float_rows(draw, values)
    if x is None:
        return None
    dim = x.type.rank - 1
    wide, n = b.convert(x, DType.F32), b.lit(1 / x.type.dims[dim], DType.F32)
    mean = b.op("mul", b.reduce("reduce_sum", wide, (dim,), True), n)
    centred = b.op("sub", wide, mean)
    square = b.op("mul", centred, centred)
    var = b.op("mul", b.reduce("reduce_sum", square, (dim,), True), n)
    scale = b.op("rsqrt", b.op("add", var, b.lit(1e-5, DType.F32)))
    return b.convert(b.op("mul", centred, scale), x.type.dtype)


def _constant(draw: Draw, b: Builder, values: list[Var]) -> Value:
    like = draw(st.sampled_from(values)).type
    if draw(st.booleans()) and like.rank and like.dtype is not DType.BOOL:
        return b.iota(like.shape, like.dtype, draw(st.integers(0, like.rank - 1)))
    return b.full(like.shape, like.dtype, draw(st.sampled_from([0, 1, 2])))


def _place_mask(draw: Draw, b: Builder, values: list[Var]) -> Value | None:
    """Where the place along a dimension is below a value or another place, as masks are made."""
    x = draw(st.sampled_from(values))
    if not x.type.rank:
        return None
    dtype = draw(st.sampled_from([DType.I32, DType.I64]))
    place = b.iota(x.type.shape, dtype, draw(st.integers(0, x.type.rank - 1)))
    fits = [v for v in values if _broadcasts(v.type, place.type)]
    other: Value = b.iota(x.type.shape, dtype, draw(st.integers(0, x.type.rank - 1)))
    if fits and draw(st.booleans()):
        other = draw(st.sampled_from(fits))
    return b.op(draw(st.sampled_from(["lt", "ge", "eq", "ne"])), place, other)


STEPS: tuple[Step, ...] = (
    _unary,
    _binary,
    _binary,
    _binary,
    _select,
    _convert,
    _transpose,
    _reshape,
    _reduce,
    _reduce,
    _arg_reduce,
    _slice,
    _concat,
    _pad,
    _dot,
    _stacked_dot,
    _place_mask,
    _softmax,
    _layer_norm,
    _constant,
)
