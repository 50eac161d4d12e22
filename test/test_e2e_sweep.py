"""Odd sizes, ranks, types and memory layouts through torch.compile, against eager.

Many functions are compiled as one, since compiling takes most of the time.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

import tpu_inductor
from tpu_inductor.regions.region import Tier

SIZES = (1, 7, 127, 129, 1000)
SHAPES = (
    (),
    *((n,) for n in SIZES),
    (7, 129),
    (129, 7),
    (1000, 1),
    (3, 1, 127),
    (2, 7, 9, 5),
    (2, 1, 3, 7, 2),
    (0,),
    (0, 7),
    (7, 0, 3),
)
FLOATS = (torch.float32, torch.bfloat16)
INTS = (torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTS, torch.bool)

Functions = dict[str, Callable[[Tensor, Tensor], object]]

POINTWISE: Functions = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: torch.maximum(x, y),
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
    "where": lambda x, y: torch.where(x > y, x, y),
    "to float": lambda x, y: x.float() + y.float(),
    "to int64": lambda x, y: x.to(torch.int64) * 3,
    "alpha": lambda x, y: torch.add(x, y, alpha=2) if x.dtype is not torch.bool else x,
    "scalar": lambda x, y: x * 2.5 + y,
    "masked_fill": lambda x, y: x.masked_fill(y == 0, 1),
    "flat outer": lambda x, y: x.reshape(-1)[:5, None] * y.reshape(-1)[None, :9],
}
FLOAT_POINTWISE: Functions = {
    "div": lambda x, y: x / y,
    "exp": lambda x, y: torch.exp(x),
    "tanh": lambda x, y: torch.tanh(x) - y,
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x) * y,
    "sigmoid": lambda x, y: torch.sigmoid(x * y),
    "floor": lambda x, y: torch.floor(x),
}
INT_POINTWISE: Functions = {
    "floordiv": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"),
    "remainder": lambda x, y: x % (y.abs() + 1),
    "and": lambda x, y: (x & y) | (x ^ y),
    "shift": lambda x, y: (x << 2) >> 1,
    "true div": lambda x, y: x / 4,
}
BOOL_POINTWISE: Functions = {"logic": lambda x, y: (x & ~y) | (x ^ y)}

ROWS: Functions = {
    "sum": lambda x, y: x.sum(-1),
    "sum first": lambda x, y: x.sum(0),
    "sum all": lambda x, y: x.sum(),
    "sum bool": lambda x, y: (x > 0).sum(-1),
    "any": lambda x, y: (x > 0).any(-1, keepdim=True),
    "all": lambda x, y: (x > 0).all(),
    "cumsum": lambda x, y: x.cumsum(-1),
    "flip": lambda x, y: x.flip(0),
    "transpose": lambda x, y: x.transpose(0, -1) + 1,
}
ROWS_WITH_ELEMENTS: Functions = {
    "amax": lambda x, y: x.amax(-1),
    "argmax": lambda x, y: x.argmax(-1) if x.dtype is not torch.bool else x,
    "max": lambda x, y: x.max(0),
    "prod": lambda x, y: x.prod(-1) if x.dtype in INTS else x,
    "sort": lambda x, y: torch.sort(x, dim=-1, stable=True).values,
}
FLOAT_ROWS: Functions = {
    "softmax": lambda x, y: F.softmax(x, -1),
    "softmax first": lambda x, y: F.log_softmax(x, 0),
    "mean": lambda x, y: x - x.mean(-1, keepdim=True),
    "var": lambda x, y: x.var(-1, correction=0),
    "layer_norm": lambda x, y: F.layer_norm(x, x.shape[-1:]) if x.numel() else x,
    "norm": lambda x, y: torch.linalg.vector_norm(x, dim=-1),
}


def functions_for(x: Tensor) -> Functions:
    dtype = x.dtype
    chosen = dict(POINTWISE)
    chosen |= FLOAT_POINTWISE if dtype in FLOATS else {}
    chosen |= INT_POINTWISE if dtype in INTS else {}
    chosen |= BOOL_POINTWISE if dtype is torch.bool else {}
    if x.dim():
        chosen |= ROWS
        chosen |= FLOAT_ROWS if dtype in FLOATS else {}
        chosen |= ROWS_WITH_ELEMENTS if x.numel() else {}
    return chosen


def random(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if dtype is torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-9, 10, shape).to(dtype)


def check(functions: Functions, pairs: list[tuple[Tensor, Tensor]], share: int = 1) -> None:
    """Every `share`-th function of each pair, in turn, as one compiled function."""

    def chosen(place: int, x: Tensor) -> Functions:
        fitting = [n for n in functions_for(x) if n in functions]
        return {n: functions[n] for k, n in enumerate(fitting) if (k + place) % share == 0}

    def every(*tensors: Tensor) -> list[object]:
        both = enumerate(zip(tensors[::2], tensors[1::2], strict=True))
        return [f(x, y) for i, (x, y) in both for f in chosen(i, x).values()]

    names = [f"{n} of {list(x.shape)}" for i, (x, _) in enumerate(pairs) for n in chosen(i, x)]
    flat = [t for pair in pairs for t in pair]
    counters.clear()
    got = torch.compile(every, backend="tpu_tile", fullgraph=True, dynamic=False)(*flat)
    for name, a, b in zip(names, got, every(*flat), strict=True):
        assert_like_eager(a, b, name)
    assert counters["tpu_tile"]["eager_ops"] == 0, fallbacks(every, flat)


def fallbacks(fn: Callable[..., object], args: list[Tensor]) -> str:
    explained = tpu_inductor.explain(fn, *args)
    regions = [r for g in explained.graphs for r in g.lowered.scheduled.partition.regions]
    return "\n".join(str(r) for r in regions if r.tier is Tier.EAGER)


def assert_like_eager(got: object, want: object, name: str) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            assert_like_eager(a, b, name)
        return
    if want.numel():
        strides = zip(got.shape, got.stride(), want.stride(), strict=True)
        assert all(n == 1 or a == b for n, a, b in strides), name
    tolerance = {torch.float32: (2e-5, 2e-5), torch.bfloat16: (1.6e-2, 1e-2)}
    rtol, atol = tolerance.get(want.dtype, (0, 0))
    torch.testing.assert_close(
        got, want, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{name} {want.dtype}: {m}"
    )


EVERY = {
    **POINTWISE, **FLOAT_POINTWISE, **INT_POINTWISE, **BOOL_POINTWISE,
    **ROWS, **ROWS_WITH_ELEMENTS, **FLOAT_ROWS,
}  # fmt: skip


RANKS = {
    "0 and 1": [s for s in SHAPES if len(s) < 2 and 0 not in s],
    "2": [s for s in SHAPES if len(s) == 2 and 0 not in s],
    "3 to 5": [s for s in SHAPES if len(s) > 2 and 0 not in s],
    "empty": [s for s in SHAPES if 0 in s],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("rank", RANKS)
def test_odd_sizes_of_every_rank_are_as_in_eager(dtype, rank):
    check(EVERY, [(random(s, dtype), random(s, dtype)) for s in RANKS[rank]], share=4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("rank", RANKS)
def test_every_function_of_every_size_is_as_in_eager(dtype, rank):
    check(EVERY, [(random(s, dtype), random(s, dtype)) for s in RANKS[rank]])


LAYOUTS: dict[str, Callable[[torch.dtype], Tensor]] = {
    "transposed": lambda d: random((9, 7), d).t(),
    "permuted": lambda d: random((3, 5, 7), d).permute(2, 0, 1),
    "sliced": lambda d: random((14, 20), d)[::2, 3:12],
    "offset": lambda d: random((64,), d)[1:],
    "expanded": lambda d: random((7, 1), d).expand(7, 9),
    "expanded scalar": lambda d: random((), d).expand(3, 5),
    "overlapping": lambda d: random((20,), d).as_strided((6, 8), (2, 1)),
    "channels last": lambda d: random((2, 3, 4, 5), d).to(memory_format=torch.channels_last),
    "unfolded": lambda d: random((17,), d).unfold(0, 5, 2),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_every_memory_layout_is_as_in_eager(dtype):
    some = ("add", "where", "exp", "sum", "sum first", "softmax", "amax", "flip", "flat outer")
    tensors = [make(dtype) for make in LAYOUTS.values()]
    pairs = [(x, random(tuple(x.shape), dtype)) for x in tensors]
    check({n: EVERY[n] for n in some}, pairs, share=2)


def test_operands_of_different_rank_and_type_promote_as_in_eager():
    def promote(x: Tensor, y: Tensor, flag: Tensor, number: Tensor, wide: Tensor) -> list[Tensor]:
        return [x + y, y * flag, x + number, y / 2, x * wide, flag + flag, number - y, wide + 1]

    args = (
        torch.randn(7, 9).bfloat16(),
        torch.randint(-5, 5, (9,), dtype=torch.int32),
        torch.rand(7, 1) > 0.5,
        torch.tensor(2.5, dtype=torch.float64),
        torch.randn(3, 1, 9, dtype=torch.float64),
    )
    got = torch.compile(promote, backend="tpu_tile", fullgraph=True)(*args)
    for i, (a, b) in enumerate(zip(got, promote(*args), strict=True)):
        assert_like_eager(a, b, f"result {i}")


def test_wide_integers_and_doubles_are_exact():
    def exact(i: Tensor, d: Tensor) -> list[Tensor]:
        return [i + 1, i * 3, i.sum(), (i // 7) * 7 + i % 7, d + 1e-13, d.sum(-1), i == i.max()]

    i = torch.tensor([2**62 + 1, -(2**62) - 3, 2**53 + 1, -1])
    d = torch.tensor([1.0, 1 + 2**-50, 1e300, 2**-1060], dtype=torch.float64)
    got = torch.compile(exact, backend="tpu_tile", fullgraph=True)(i, d)
    for a, b in zip(got, exact(i, d), strict=True):
        assert torch.equal(a, b)


def test_matmuls_of_odd_sizes_are_as_in_eager():
    def products(*xs: Tensor) -> list[Tensor]:
        pairs = zip(xs[::2], xs[1::2], strict=True)
        return [x @ y for x, y in pairs]

    shapes = [(1, 7, 129), (127, 1, 1), (129, 1000, 7), (7, 0, 3), (0, 4, 5), (3, 4, 0)]
    args = [torch.randn(s) for m, k, n in shapes for s in ((m, k), (k, n))]
    args += [torch.randn(s) for s in ((7,), (7,), (3, 7), (7,), (5, 1, 3, 7), (4, 7, 2))]
    args += [x.bfloat16() for x in args[:6]]
    got = torch.compile(products, backend="tpu_tile", fullgraph=True)(*args)
    for a, b in zip(got, products(*args), strict=True):
        rtol, atol = (2e-2, 2e-2) if b.dtype is torch.bfloat16 else (1e-4, 1e-4)
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)
