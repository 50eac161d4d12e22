"""Which slices move before the transposition of what they cut, and that no result changes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.slices import slice_before_transposing
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.graph.verify import verify

SHAPE = (2, 3, 4, 5)


def _turned(perm: tuple[int, ...]) -> tuple[Builder, Var]:
    b = Builder()
    return b, b.transpose(b.input("x", TensorType(SHAPE, DType.F32)), perm)


def _moved(b: Builder, *outputs: Value) -> list[str]:
    """The primitives after the rewrite, which changes no result."""
    before = b.finish("g", outputs)
    after = slice_before_transposing(before)
    verify(after)
    x = torch.randn(SHAPE)
    for old, new in zip(run(before, (x,)), run(after, (x,)), strict=True):
        assert torch.equal(old, new)
    return [eqn.prim for eqn in after.eqns]


def test_each_slice_of_a_transposed_value_moves_before_it():
    b, turned = _turned((2, 0, 1, 3))
    parts = [b.slice(turned, 0, i, i + 2) for i in (0, 2)]
    assert _moved(b, *parts) == ["slice", "transpose"] * 2


def test_a_value_that_something_else_reads_is_transposed_anyway():
    b, turned = _turned((3, 2, 1, 0))
    part = b.slice(turned, 1, 0, 2)
    assert _moved(b, part, b.op("neg", turned)) == ["transpose", "slice", "neg"]
    assert _moved(b, part, turned) == ["transpose", "slice"]


@given(st.permutations(range(4)), st.data())
def test_every_order_and_every_slice_keeps_its_elements(perm, data):
    b, turned = _turned(tuple(perm))
    if turned.name == "x":
        return
    dims = turned.type.dims
    start = tuple(data.draw(st.integers(0, n - 1)) for n in dims)
    limit = tuple(data.draw(st.integers(i, n)) for i, n in zip(start, dims, strict=True))
    stride = tuple(data.draw(st.integers(1, 3)) for _ in dims)
    part = b.one("slice", turned, attrs=A.Slice(start, limit, stride))
    assert _moved(b, part) == ["slice", "transpose"]
