"""Edge-case operands for every primitive, as (label, prim, attrs, operands)."""

import itertools
from dataclasses import dataclass

import torch

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.graph.prims import COMPARE, PRIMS
from tpu_inductor.graph.torch_dtypes import FROM_TORCH, TORCH_DTYPE
from tpu_inductor.graph.types import DType, TensorType

FLOATS = (DType.F64, DType.F32, DType.BF16, DType.F16)
SIGNED = (DType.I64, DType.I32, DType.I16, DType.I8)
UNSIGNED = (DType.U64, DType.U32, DType.U16, DType.U8)
INTS = SIGNED + UNSIGNED
BOOL = (DType.BOOL,)
ALL = FLOATS + INTS + BOOL
NARROWED = (DType.F32, DType.BF16, DType.I64, DType.I32, DType.U8, DType.BOOL)

Operand = torch.Tensor | Lit


@dataclass(frozen=True)
class Case:
    prim: str
    attrs: A.Attrs
    operands: tuple[Operand, ...]
    label: str

    def eqn(self) -> Eqn:
        inputs = tuple(
            x if isinstance(x, Lit) else Var(f"x{i}", type_of(x))
            for i, x in enumerate(self.operands)
        )
        types = PRIMS[self.prim].type_rule(self.attrs, *(v.type for v in inputs))
        outputs = tuple(Var(f"out{i}", t) for i, t in enumerate(types))
        return Eqn(self.prim, inputs, outputs, self.attrs, COMPILER)

    def __str__(self) -> str:
        return f"{self.prim}-{self.label}"


def type_of(x: torch.Tensor) -> TensorType:
    return TensorType(tuple(x.shape), FROM_TORCH[x.dtype])


def edge_values(dtype: DType) -> torch.Tensor:
    """The values of `dtype` where implementations part ways."""
    torch_dtype = TORCH_DTYPE[dtype]
    if dtype is DType.BOOL:
        return torch.tensor([False, True])
    if dtype.is_float:
        inf, nan = float("inf"), float("nan")
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 100.0]
        return torch.tensor([*values, inf, -inf, nan], dtype=torch_dtype)
    bits = 8 * dtype.itemsize
    if dtype.is_signed_int:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return torch.tensor([0, 1, -1, 2, -3, 7, 31, high, low], dtype=torch_dtype)
    return torch.tensor([0, 1, 2, 3, 7, 31, 2**bits - 2, 2**bits - 1], dtype=torch_dtype)


def values(dtype: DType, *shape: int, seed: int = 0) -> torch.Tensor:
    """Ordinary values with ties."""
    rng = torch.Generator().manual_seed(seed)
    raw = torch.randint(-6, 7, shape, generator=rng)
    if dtype.is_float:
        return (raw / 4).to(TORCH_DTYPE[dtype])
    if dtype is DType.BOOL:
        return raw > 0
    return (raw if dtype.is_signed_int else raw.abs()).to(TORCH_DTYPE[dtype])


def lit(value, dtype: DType) -> Lit:
    return Lit(value, dtype)


_NONE = A.NoAttrs()
_FLOAT_UNARY = [
    "floor",
    "ceil",
    "round",
    "trunc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erf_inv",
    "lgamma",
    "digamma",
    "logistic",
]
UNARY_DTYPES = {
    **dict.fromkeys(_FLOAT_UNARY, FLOATS),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), FLOATS + SIGNED),
    "neg": FLOATS + INTS,
    "abs": FLOATS + SIGNED,
    "sign": FLOATS + SIGNED + BOOL,
    "not": INTS + BOOL,
    "is_nan": ALL,
}
BINARY_DTYPES = {
    **dict.fromkeys(("add", "mul", "max", "min"), ALL),
    "sub": FLOATS + INTS,
    "div": FLOATS,
    "idiv": FLOATS + INTS,
    "rem": FLOATS + INTS,
    "pow": FLOATS + SIGNED + (DType.U8,),
    "atan2": FLOATS,
    "nextafter": (DType.F64, DType.F32),
    **dict.fromkeys(("and", "or", "xor"), INTS + BOOL),
    **dict.fromkeys(("shift_left", "shift_right"), INTS),
    **dict.fromkeys(COMPARE, ALL),
}


def _unary():
    for prim, dtypes in UNARY_DTYPES.items():
        for dtype in dtypes:
            x = edge_values(dtype)
            yield Case(prim, _NONE, (x,), f"{dtype.short}-edge")
            yield Case(prim, _NONE, (lit(x[1].item(), dtype),), f"{dtype.short}-lit")
        x = edge_values(dtypes[0])
        yield Case(prim, _NONE, (x[1],), "0d")
        yield Case(prim, _NONE, (x[:0].reshape(0, 3),), "empty")


def _binary():
    for prim, dtypes in BINARY_DTYPES.items():
        for dtype in dtypes:
            x, name = edge_values(dtype), dtype.short
            n = len(x)
            yield Case(prim, _NONE, (x.repeat_interleave(n), x.repeat(n)), f"{name}-grid")
            for i in (1, -1, -2) if dtype in (*NARROWED, DType.U32, DType.U64) else (-1,):
                number = lit(x[i].item(), dtype)
                yield Case(prim, _NONE, (x, number), f"{name}-lit{i}")
                yield Case(prim, _NONE, (number, x), f"{name}-rlit{i}")
            both = (lit(x[1].item(), dtype), lit(x[-1].item(), dtype))
            yield Case(prim, _NONE, both, f"{name}-lits")
        x = edge_values(dtypes[0])
        yield Case(prim, _NONE, (x, x[1]), "0d")
        yield Case(prim, _NONE, (x[:0], x[:0]), "empty")


def _select_convert():
    pred = torch.tensor([True, False, True])
    for dtype in (*ALL, DType.F8E4M3, DType.F8E5M2):
        x, y = values(dtype, 3), values(dtype, 3, seed=1)
        one, two = lit(x[0].item(), dtype), lit(y[0].item(), dtype)
        for k, branches in enumerate([(x, y), (one, y), (x, two), (one, two), (x[0], y)]):
            yield Case("select", _NONE, (pred, *branches), f"{dtype.short}-{k}")
        yield Case("select", _NONE, (lit(True, DType.BOOL), x, one), f"{dtype.short}-true")
    kinds = (*ALL, DType.F8E4M3, DType.F8E5M2)
    for src, dst in itertools.product(kinds, kinds):
        x = values(src, 2, 9)
        if src in FLOATS and dst.is_float:
            x = edge_values(src)
        if src.is_float and dst in UNSIGNED:
            x = x.float().abs().to(x.dtype)
        if src in INTS and dst in INTS + BOOL:
            x = edge_values(src)
        yield Case("convert", A.Convert(dst), (x,), f"{src.short}-{dst.short}")
        if src.itemsize == dst.itemsize:
            yield Case("bitcast", A.Convert(dst), (x,), f"{src.short}-{dst.short}")
    yield Case("convert", A.Convert(DType.I32), (lit(-2.5, DType.F32),), "lit")


def _create_view():
    for dtype in ALL:
        for shape, dim in (((3,), 0), ((2, 9), 1), ((9, 2), 0), ((0, 4), 1)):
            yield Case("iota", A.Iota(shape, dtype, dim), (), f"{dtype.short}-{shape}-{dim}")
        for i, number in enumerate(edge_values(dtype).tolist()):
            yield Case("full", A.Full((2, 3), dtype, number), (), f"{dtype.short}-{i}")
        yield Case("full", A.Full((), dtype, 1), (), f"{dtype.short}-0d")
    for dtype in (*NARROWED, DType.F16, DType.F8E4M3):
        x, name = values(dtype, 3, 1), dtype.short
        yield Case("broadcast", A.Broadcast((2, 3, 4), (1, 2)), (x,), f"{name}-trailing")
        yield Case("broadcast", A.Broadcast((3, 2, 1), (0, 2)), (x,), f"{name}-middle")
        yield Case("broadcast", A.Broadcast((2, 0), ()), (x[0, 0],), f"{name}-0d-empty")
        yield Case("broadcast", A.Broadcast((2, 2), ()), (lit(1, dtype),), f"{name}-lit")
        yield Case("reshape", A.Reshape((1, 3)), (x,), name)
        yield Case("reshape", A.Reshape(()), (x[:1],), f"{name}-0d")
        yield Case("reshape", A.Reshape((1, 1)), (lit(1, dtype),), f"{name}-lit")
        yield Case("reshape", A.Reshape((0, 7)), (x[:0],), f"{name}-empty")
        cube = values(dtype, 2, 3, 4)
        yield Case("transpose", A.Transpose((2, 0, 1)), (cube,), name)
        yield Case("transpose", A.Transpose(()), (cube[0, 0, 0],), f"{name}-0d")
        yield from _moves(dtype, cube)


def _moves(dtype: DType, cube: torch.Tensor):
    name = dtype.short
    yield Case("slice", A.Slice((0, 1, 1), (2, 3, 4), (1, 1, 2)), (cube,), name)
    yield Case("slice", A.Slice((1, 1, 1), (1, 1, 4), (1, 1, 1)), (cube,), f"{name}-empty")
    yield Case("slice", A.Slice((), (), ()), (cube[0, 0, 0],), f"{name}-0d")
    pad = A.Pad((1, -1, 0), (0, 2, -2), (0, 1, 2))
    for k, fill in enumerate((cube[0, 0, 0], lit(1, dtype))):
        yield Case("pad", pad, (cube, fill), f"{name}-{k}")
    yield Case("pad", A.Pad((1,), (1,), (0,)), (cube[0, 0, :0], lit(0, dtype)), f"{name}-empty")
    yield Case("concat", A.Axis(1), (cube, cube[:, :0], cube[:, 1:]), name)
    yield Case("rev", A.Dims((0, 2)), (cube,), name)
    yield Case("rev", A.Dims(()), (cube,), f"{name}-none")


def _reduce():
    for dtype in ALL:
        cube, name = values(dtype, 3, 4, 5), dtype.short
        small = cube if dtype.is_float or dtype is DType.BOOL else cube.to(torch.int64)
        small = small.clamp(-2, 2).to(cube.dtype) if dtype is not DType.BOOL else cube
        for prim in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
            x = small if prim == "reduce_prod" else cube
            for dims in ((), (1,), (0, 2), (0, 1, 2)):
                yield Case(prim, A.Dims(dims), (x,), f"{name}-{dims}")
            yield Case(prim, A.Dims((1,)), (x[:0],), f"{name}-empty")
            if dtype.is_float:
                yield Case(prim, A.Dims((0,)), (edge_values(dtype).reshape(5, 3),), f"{name}-nan")
        for prim in ("reduce_sum", "reduce_prod"):
            yield Case(prim, A.Dims((1,)), (cube[:, :0],), f"{name}-over-empty")
        if dtype in INTS + BOOL:
            for prim in ("reduce_and", "reduce_or"):
                yield Case(prim, A.Dims((0, 2)), (cube,), name)
                yield Case(prim, A.Dims((1,)), (cube[:, :0],), f"{name}-over-empty")
        for prim in ("argmax", "argmin"):
            yield Case(prim, A.Axis(1), (cube,), name)
            yield Case(prim, A.Axis(0), (cube[:, :0],), f"{name}-empty")
            if dtype.is_float:
                yield Case(prim, A.Axis(0), (edge_values(dtype).reshape(5, 3),), f"{name}-nan")
                twice = edge_values(dtype).repeat(2)
                yield Case(prim, A.Axis(0), (twice,), f"{name}-nans")


def _scan_sort():
    for dtype in ALL:
        x, name = values(dtype, 4, 7), dtype.short
        scans = ["cummax", "cummin"] + (["cumsum", "cumprod"] if dtype is not DType.BOOL else [])
        for prim in scans:
            for dim in (0, 1):
                yield Case(prim, A.Axis(dim), (x,), f"{name}-{dim}")
            yield Case(prim, A.Axis(0), (x[:0],), f"{name}-empty")
            if dtype.is_float:
                edge = edge_values(dtype)
                yield Case(prim, A.Axis(0), (edge,), f"{name}-nan")
        for down in (False, True):
            for dim in (0, 1):
                yield Case("sort", A.Sort(dim, down), (x,), f"{name}-{dim}-{down}")
            yield Case(
                "sort", A.Sort(0, down), (edge_values(dtype).repeat(3),), f"{name}-edge-{down}"
            )
            yield Case("sort", A.Sort(0, down), (x[:0],), f"{name}-empty-{down}")


def _index():
    i = torch.tensor([[2, 0, 1], [1, 1, 2]])
    j = torch.tensor([[3, 0, 0], [1, 2, 3]], dtype=torch.int32)
    for dtype in (*NARROWED, DType.F16, DType.F64):
        x, name = values(dtype, 3, 4, 5), dtype.short
        placed = {
            (0,): (i,),
            (1,): (j,),
            (0, 1): (i, j),
            (1, 2): (j, i),
            (0, 2): (i, j),
            (2, 0): (j, i),
        }
        for dims, indices in placed.items():
            yield Case("gather", A.Gather(dims), (x, *indices), f"{name}-{dims}")
        yield Case("gather", A.Gather((1,)), (x, torch.tensor(2)), f"{name}-0d")
        yield Case("gather", A.Gather((1,)), (x, i[:0]), f"{name}-empty")
        for mode in ("set", "add", "mul", "max", "min"):
            every = ((0,), (1,), (2,), (0, 1), (2, 0)) if dtype is DType.F32 else ((0,), (2, 0))
            yield from _scatters(dtype, mode, every)


def _check():
    unsigned = 1 << 64
    for dtype in INTS:
        x, name = edge_values(dtype), dtype.short
        for start, count, ignored in (
            (0, 3, None),
            (-4, 8, None),
            (1, unsigned - 1, None),
            (0, 3, 7),
        ):
            attrs = A.Check(start, count, "IndexError", "", ignored)
            yield Case("check", attrs, (x,), f"{name}-{start}-{ignored}")
            yield Case("check", attrs, (x[1:3],), f"{name}-{start}-{ignored}-few")
        yield Case("check", A.Check(0, 3, "IndexError", ""), (x[:0],), f"{name}-empty")


def _scatters(dtype: DType, mode: str, every: tuple[tuple[int, ...], ...]):
    x, name = values(dtype, 3, 4, 5), f"{dtype.short}-{mode}"
    once = torch.tensor([2, 0])
    twice = once if mode == "set" else torch.tensor([2, 2])
    for dims, out_of_bounds in itertools.product(every, (0, 1)):
        index = tuple(twice for _ in dims)
        if out_of_bounds:
            index = (torch.tensor([-1, 7]), *index[1:])
        rest = [s for d, s in enumerate(x.shape) if d not in dims]
        updates = values(dtype, 2, *rest, seed=3)
        operands = (x, updates, *index)
        yield Case("scatter", A.Scatter(dims, mode), operands, f"{name}-{dims}-{out_of_bounds}")
    if dtype.is_float and mode != "set":
        nan = torch.tensor([float("nan"), 1.0], dtype=x.dtype)
        yield Case("scatter", A.Scatter((0,), mode), (x[0, 0], nan, once), f"{name}-nan")


def _dot():
    for dtype in FLOATS + SIGNED + UNSIGNED:
        x, y, name = values(dtype, 2, 3, 7), values(dtype, 7, 2, 5, seed=1), dtype.short
        outs = [dtype, *([DType.F32] if dtype in (DType.BF16, DType.F16) else [])]
        precisions = ("highest", "high", "default") if dtype is DType.F32 else ("high",)
        outs += [DType.I32] if dtype is DType.I8 else []
        for out, precision in itertools.product(outs, precisions):
            label = f"{name}-{out.short}-{precision}"
            batched = A.Dot((2,), (0,), (0,), (1,), precision, out)
            yield Case("dot", batched, (x, y), f"{label}-batched")
            outer = A.Dot((), (), (), (), precision, out)
            yield Case("dot", outer, (x[0, 0], y[0, 0]), f"{label}-outer")
            yield Case("dot", batched, (x[..., :0], y[:0]), f"{label}-over-empty")
            two = A.Dot((0, 2), (1, 0), (), (), precision, out)
            yield Case("dot", two, (x, y), f"{label}-two")
            yield Case(
                "dot", A.Dot((0,), (0,), (), (), precision, out), (x[0, 0], x[0, 1]), f"{label}-vec"
            )


def _conv():
    for dtype in FLOATS:
        name = dtype.short
        x, w = values(dtype, 2, 4, 9), values(dtype, 6, 2, 3, seed=1)
        yield Case("conv", A.Conv((2,), ((1, 2),), (1,), (2,), 2, "highest"), (x, w), f"{name}-1d")
        x, w = values(dtype, 1, 3, 5, 6), values(dtype, 4, 3, 2, 3, seed=1)
        plain = A.Conv((1, 1), ((0, 0), (1, 1)), (1, 1), (1, 1), 1, "default")
        yield Case("conv", plain, (x, w), f"{name}-2d")
        dilated = A.Conv((1, 2), ((-1, 1), (2, 0)), (2, 3), (1, 1), 1, "high")
        yield Case("conv", dilated, (x, w), f"{name}-transposed")
        yield Case("conv", plain, (x[:0], w), f"{name}-empty")


def cases() -> list[Case]:
    """Every case, at least one per primitive."""
    pointwise = (_unary, _binary, _select_convert)
    others = (_create_view, _reduce, _scan_sort, _index, _check, _dot, _conv)
    return [case for source in (*pointwise, *others) for case in source()]
