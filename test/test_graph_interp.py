"""The interpreter: eager calls, type checks, and what no single torch operator means."""

import pytest
import torch

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.interp import MEANING, run
from tpu_inductor.graph.prims import PRIMS
from tpu_inductor.graph.types import DType, TensorType

F32 = DType.F32
NAN = float("nan")


def _one(prim: str, *tensors: torch.Tensor, attrs: A.Attrs | None = None):
    return MEANING[prim](attrs or A.NoAttrs(), *tensors)


def test_every_primitive_has_a_meaning():
    assert set(MEANING) == set(PRIMS)


def test_inputs_are_checked():
    b = Builder()
    graph = b.finish("g", [b.input("x", TensorType((3,), F32))])
    with pytest.raises(InvalidIR, match="takes 1 inputs"):
        run(graph, [])
    with pytest.raises(InvalidIR, match="input x"):
        run(graph, [torch.zeros(4)])


def _eager_graph(type: TensorType) -> Graph:
    b = Builder()
    x = b.input("x", TensorType((4, 6), F32))
    args = ([A.Hole(0), A.Hole(1)], 1)
    call = A.EagerCall(torch.ops.aten.cat.default, args, (), "test", False)
    return b.finish("g", b.eager(call, [x, b.op("neg", x)], [type]))


def test_eager_calls_fill_holes_in_nested_arguments():
    x = torch.randn(4, 6)
    (out,) = run(_eager_graph(TensorType((4, 12), F32)), [x])
    assert torch.equal(out, torch.cat([x, -x], 1))


def test_eager_results_are_checked():
    with pytest.raises(InvalidIR, match=r"\[4, 12\]"):
        run(_eager_graph(TensorType((4, 13), F32)), [torch.randn(4, 6)])


def test_eager_calls_with_several_results():
    b = Builder()
    x = b.input("x", TensorType((4, 6), F32))
    call = A.EagerCall(torch.ops.aten.split.Tensor, (A.Hole(0), 2), (("dim", 1),), "test", True)
    outs = b.eager(call, [x], [TensorType((4, 2), F32)] * 3)
    given = torch.randn(4, 6)
    got = run(b.finish("g", outs), [given])
    assert all(torch.equal(g, w) for g, w in zip(got, given.split(2, 1), strict=True))


def test_integer_division_by_zero_and_overflow_do_not_trap():
    x = torch.tensor([7, -(2**31), -7], dtype=torch.int32)
    y = torch.tensor([0, -1, 2], dtype=torch.int32)
    assert _one("idiv", x, y).tolist() == [-1, -(2**31), -3]
    assert _one("rem", x, y).tolist() == [7, 0, -1]


def test_shifts_out_of_range():
    x, y = torch.tensor([5, -5], dtype=torch.int8), torch.tensor([8, -1], dtype=torch.int8)
    assert _one("shift_left", x, y).tolist() == [0, 0]
    assert _one("shift_right", x, y).tolist() == [0, -1]


def test_argmax_takes_the_first_nan_else_the_first_maximum():
    x = torch.tensor([[1.0, 3.0, 3.0, 0.0], [1.0, NAN, 9.0, NAN]])
    assert _one("argmax", x, attrs=A.Axis(1)).tolist() == [1, 1]
    assert _one("argmin", x, attrs=A.Axis(1)).tolist() == [3, 1]


def test_sort_is_stable_with_nan_largest():
    x = torch.tensor([0.0, NAN, -0.0, 2.0, NAN, 2.0])
    assert _one("sort", x, attrs=A.Sort(0, False))[1].tolist() == [0, 2, 3, 5, 1, 4]
    assert _one("sort", x, attrs=A.Sort(0, True))[1].tolist() == [1, 4, 3, 5, 0, 2]


def test_pad_spreads_then_crops():
    x = torch.tensor([1, 2, 3])
    out = _one("pad", x, torch.tensor(9), attrs=A.Pad((-1,), (2,), (1,)))
    assert out.tolist() == [9, 2, 9, 3, 9, 9]


def test_transposed_convolution_by_dilating_the_input():
    x, w = torch.randn(1, 3, 5), torch.randn(3, 2, 4)
    want = torch.nn.functional.conv_transpose1d(x, w, stride=2, padding=1)
    flipped = w.flip(2).transpose(0, 1)
    attrs = A.Conv((1,), ((2, 2),), (2,), (1,), 1, "highest")
    torch.testing.assert_close(_one("conv", x, flipped, attrs=attrs), want)


def test_unsigned_types_wrap_and_compare_by_value():
    b = Builder()
    kind = TensorType((3,), DType.U64)
    x, y = b.input("x", kind), b.input("y", kind)
    outs = [b.op(prim, x, y) for prim in ("sub", "lt", "max", "idiv", "rem", "shift_right")]
    values = [5, 2**64 - 1, 0], [7, 2, 0]
    got = run(b.finish("g", outs), [torch.tensor(v, dtype=torch.uint64) for v in values])
    assert [g.tolist() for g in got] == [
        [2**64 - 2, 2**64 - 3, 0],
        [True, False, False],
        [7, 2**64 - 1, 0],
        [0, 2**63 - 1, 2**64 - 1],
        [5, 1, 0],
        [0, (2**64 - 1) >> 2, 0],
    ]
