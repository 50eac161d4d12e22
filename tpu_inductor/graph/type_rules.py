"""Type rules: from operand types and attributes to result types, one function per shape of rule.

A rule raises `InvalidIR` where operands do not fit, so an ill-typed graph cannot be built.
"""

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.types import DType, Shape, TensorType


def _check(ok: bool, message: str) -> None:
    if not ok:
        raise InvalidIR(message)


def _unify(types: tuple[TensorType, ...]) -> Shape:
    """The one shape of pointwise operands, apart from 0-dimensional literals."""
    shapes = dict.fromkeys(t.shape for t in types if t.shape != ())
    _check(len(shapes) <= 1, f"pointwise operands differ in shape: {', '.join(map(str, types))}")
    return next(iter(shapes), ())


def same(_: A.NoAttrs, *types: TensorType) -> tuple[TensorType, ...]:
    """Equal shapes and types in, the same out."""
    _check(len({t.dtype for t in types}) == 1, f"operands differ in type: {types}")
    return (TensorType(_unify(types), types[0].dtype),)


def comparison(_: A.NoAttrs, *types: TensorType) -> tuple[TensorType, ...]:
    _check(len({t.dtype for t in types}) == 1, f"compared operands differ in type: {types}")
    return (TensorType(_unify(types), DType.BOOL),)


def select(_: A.NoAttrs, pred: TensorType, *branches: TensorType) -> tuple[TensorType, ...]:
    _check(pred.dtype is DType.BOOL, f"select on {pred}")
    _check(branches[0].dtype is branches[1].dtype, f"select branches differ in type: {branches}")
    return (TensorType(_unify((pred, *branches)), branches[0].dtype),)


def convert(attrs: A.Convert, x: TensorType) -> tuple[TensorType, ...]:
    return (x.with_dtype(attrs.dtype),)


def bitcast(attrs: A.Convert, x: TensorType) -> tuple[TensorType, ...]:
    _check(attrs.dtype.itemsize == x.dtype.itemsize, f"bitcast of {x} to {attrs.dtype.short}")
    return (x.with_dtype(attrs.dtype),)


def create(attrs: A.Iota | A.Full) -> tuple[TensorType, ...]:
    return (TensorType(attrs.shape, attrs.dtype),)


def broadcast(attrs: A.Broadcast, x: TensorType) -> tuple[TensorType, ...]:
    _check(len(attrs.dims) == x.rank, f"broadcast of {x} names dimensions {attrs.dims}")
    _check(list(attrs.dims) == sorted(set(attrs.dims)), f"broadcast permutes: {attrs.dims}")
    for extent, dim in zip(x.shape, attrs.dims, strict=True):
        _check(extent in (1, attrs.shape[dim]), f"broadcast of {x} to {attrs.shape}")
    return (x.with_shape(attrs.shape),)


def reshape(attrs: A.Reshape, x: TensorType) -> tuple[TensorType, ...]:
    out = x.with_shape(attrs.shape)
    _check(out.size == x.size, f"reshape of {x} to {attrs.shape}")
    return (out,)


def transpose(attrs: A.Transpose, x: TensorType) -> tuple[TensorType, ...]:
    _check(sorted(attrs.perm) == list(range(x.rank)), f"transpose of {x} by {attrs.perm}")
    return (x.with_shape(tuple(x.shape[p] for p in attrs.perm)),)


def keep(_: A.Attrs, x: TensorType) -> tuple[TensorType, ...]:
    return (x,)


def reduce(attrs: A.Dims, x: TensorType) -> tuple[TensorType, ...]:
    _check(all(0 <= d < x.rank for d in attrs.dims), f"reduction of {x} over {attrs.dims}")
    return (x.with_shape(tuple(s for d, s in enumerate(x.shape) if d not in attrs.dims)),)


def arg_reduce(attrs: A.Axis, x: TensorType) -> tuple[TensorType, ...]:
    kept = tuple(s for d, s in enumerate(x.shape) if d != attrs.dim)
    return (TensorType(kept, DType.I32),)


def slice_(attrs: A.Slice, x: TensorType) -> tuple[TensorType, ...]:
    shape: list[int] = []
    for extent, lo, hi, step in zip(x.dims, attrs.start, attrs.limit, attrs.stride, strict=True):
        _check(0 <= lo <= hi <= extent and step > 0, f"slice {lo}:{hi}:{step} of {x}")
        shape.append(-(-(hi - lo) // step))
    return (x.with_shape(tuple(shape)),)


def pad(attrs: A.Pad, x: TensorType, value: TensorType) -> tuple[TensorType, ...]:
    _check(value.shape == () and value.dtype is x.dtype, f"pad of {x} with {value}")
    edges = zip(x.dims, attrs.low, attrs.high, attrs.interior, strict=True)
    shape = tuple(n + lo + hi + max(n - 1, 0) * mid for n, lo, hi, mid in edges)
    _check(all(n >= 0 for n in shape), f"pad of {x} to {shape}")
    return (x.with_shape(shape),)


def concat(attrs: A.Axis, *types: TensorType) -> tuple[TensorType, ...]:
    first, dim = types[0], attrs.dim
    for t in types:
        fits = t.dtype is first.dtype and t.rank == first.rank
        fits = fits and t.shape[:dim] == first.shape[:dim]
        _check(fits and t.shape[dim + 1 :] == first.shape[dim + 1 :], f"concat of {types}")
    total = sum(t.dims[dim] for t in types)
    return (first.with_shape((*first.shape[:dim], total, *first.shape[dim + 1 :])),)


def dot(attrs: A.Dot, lhs: TensorType, rhs: TensorType) -> tuple[TensorType, ...]:
    pairs = (
        *zip(attrs.lhs_contract, attrs.rhs_contract, strict=True),
        *zip(attrs.lhs_batch, attrs.rhs_batch, strict=True),
    )
    _check(lhs.dtype is rhs.dtype, f"dot of {lhs} and {rhs}")
    _check(all(lhs.shape[i] == rhs.shape[j] for i, j in pairs), f"dot of {lhs} and {rhs}: {attrs}")
    batch = tuple(lhs.shape[d] for d in attrs.lhs_batch)
    left = tuple(lhs.shape[d] for d in attrs.free("lhs", lhs.rank))
    right = tuple(rhs.shape[d] for d in attrs.free("rhs", rhs.rank))
    return (TensorType(batch + left + right, attrs.dtype),)


def gather(attrs: A.Gather, x: TensorType, *indices: TensorType) -> tuple[TensorType, ...]:
    _check(len(indices) == len(attrs.dims) > 0, f"gather of {x} over {attrs.dims}")
    _check(len({t.shape for t in indices}) == 1, f"gather indices differ in shape: {indices}")
    rest = tuple(s for d, s in enumerate(x.shape) if d not in attrs.dims)
    return (x.with_shape(indices[0].shape + rest),)


def scatter(
    attrs: A.Scatter, x: TensorType, updates: TensorType, *indices: TensorType
) -> tuple[TensorType, ...]:
    (wanted,) = gather(A.Gather(attrs.dims), x, *indices)
    _check(wanted == updates, f"scatter of {updates} where {wanted} fits")
    return (x,)


def check(attrs: A.Check, x: TensorType) -> tuple[TensorType, ...]:
    _check(x.dtype.is_int, f"check of {x}")
    return (TensorType((), DType.U64),)


def sort(attrs: A.Sort, x: TensorType) -> tuple[TensorType, ...]:
    _check(0 <= attrs.dim < x.rank, f"sort of {x} along {attrs.dim}")
    return (x, x.with_dtype(DType.I64))


def conv(attrs: A.Conv, x: TensorType, w: TensorType) -> tuple[TensorType, ...]:
    _check(x.dtype is w.dtype and x.rank == w.rank, f"convolution of {x} with {w}")
    channels, spatial_dims = (-1, x.dims[1:-1]) if attrs.channels_last else (1, x.dims[2:])
    _check(x.dims[channels] == w.dims[1] * attrs.groups, f"convolution of {x} with {w}: {attrs}")
    spatial: list[int] = []
    for i, (lo, hi) in enumerate(attrs.padding):
        extent = (spatial_dims[i] - 1) * attrs.lhs_dilation[i] + 1 + lo + hi
        window = (w.dims[i + 2] - 1) * attrs.rhs_dilation[i] + 1
        spatial.append(max((extent - window) // attrs.strides[i] + 1, 0))
    order = (*spatial, w.shape[0]) if attrs.channels_last else (w.shape[0], *spatial)
    return (x.with_shape((x.shape[0], *order)),)
