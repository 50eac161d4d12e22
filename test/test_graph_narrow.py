"""Which int64 values become int32, and that no result changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Lit
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.narrow import narrow_integers
from tpu_inductor.graph.prims import COMPARE
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.graph.verify import verify

F32, BF16, I32, I64 = DType.F32, DType.BF16, DType.I32, DType.I64

EDGES = [
    -(2**63),
    -(2**32),
    -(2**31) - 1,
    -2,
    -1,
    0,
    1,
    6,
    7,
    8,
    2**31,
    2**32,
    2**32 + 3,
    2**63 - 1,
]


def _narrowed(b: Builder, *outputs) -> tuple[Graph, Graph]:
    before = b.finish("g", outputs)
    after = narrow_integers(before)
    verify(after)
    return before, after


def _wide(graph: Graph) -> set[str]:
    """The primitives that still make or read int64."""
    return {e.prim for e in graph.eqns for v in (*e.inputs, *e.outputs) if v.type.dtype is I64}


def _one_hot(prim: str, b: Builder, flip: bool = False):
    targets = b.input("t", TensorType((len(EDGES),), I64))
    column = b.broadcast_to(b.reshape(targets, (len(EDGES), 1)), (len(EDGES), 8))
    places = b.iota((len(EDGES), 8), I64, 1)
    return b.one(prim, *((column, places) if flip else (places, column)))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("prim", COMPARE)
def test_any_comparison_of_places_with_unbounded_values_stays_exact(prim, flip):
    b = Builder()
    before, after = _narrowed(b, _one_hot(prim, b, flip))
    inputs = [torch.tensor(EDGES)]
    assert torch.equal(run(after, inputs)[0], run(before, inputs)[0])
    # The clamp works on the targets alone, not on every pair.
    assert _wide(after) == {"max", "min", "convert"}
    assert all(e.out.type.size == len(EDGES) for e in after.eqns if e.prim in ("max", "min"))


def test_a_causal_mask_needs_no_wide_value():
    b = Builder()
    rows, columns = b.iota((8, 8), I64, 0), b.iota((8, 8), I64, 1)
    before, after = _narrowed(b, b.one("le", columns, b.op("add", rows, b.lit(2, I64))))
    assert _wide(after) == set()
    assert torch.equal(run(after, [])[0], run(before, [])[0])


def test_positions_become_floats_from_narrow_integers():
    b = Builder()
    scaled = b.op("mul", b.iota((16,), I64, 0), b.lit(3, I64))
    before, after = _narrowed(b, b.convert(scaled, F32), b.convert(scaled, BF16))
    assert _wide(after) == set()
    for got, want in zip(run(after, []), run(before, []), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("factor", [1 << 31, 1 << 40])
def test_values_beyond_32_bits_stay_wide(factor):
    b = Builder()
    far = b.op("mul", b.iota((4,), I64, 0), b.lit(factor, I64))
    before, after = _narrowed(b, b.one("ge", far, b.lit(factor, I64)), b.convert(far, F32))
    assert "mul" in _wide(after)
    for got, want in zip(run(after, []), run(before, []), strict=True):
        assert torch.equal(got, want)


def test_an_unbounded_comparison_is_left_alone():
    b = Builder()
    x, y = (b.input(n, TensorType((4,), I64)) for n in "xy")
    before, after = _narrowed(b, b.one("lt", x, y), b.one("lt", x, b.lit(3, I64)))
    assert after == before


@pytest.mark.parametrize("number", [-100, -1, 0, 7, 8, 9, 2**31])
@pytest.mark.parametrize("prim", COMPARE)
def test_comparisons_with_constants_use_the_same_clamp(prim, number):
    b = Builder()
    hit = _one_hot("eq", b)
    (targets,) = b.sink.inputs
    before, after = _narrowed(b, hit, b.one(prim, targets, b.lit(number, I64)))
    inputs = [torch.tensor(EDGES)]
    for got, want in zip(run(after, inputs), run(before, inputs), strict=True):
        assert torch.equal(got, want)
    fits = number < 2**31
    assert _wide(after) == {"max", "min", "convert"} | (set() if fits else {prim})
    assert [e.prim for e in after.eqns].count("min") == 1


def test_int64_results_stay_int64():
    b = Builder()
    places = b.iota((8,), I64, 0)
    _, after = _narrowed(b, places, b.one("eq", places, b.lit(3, I64)))
    assert after.outputs[0].type.dtype is I64


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "sub", "mul"]), st.integers(-(2**34), 2**34))))
def test_chains_of_arithmetic_keep_their_bits(chain):
    b = Builder()
    value = b.iota((5,), I64, 0)
    for prim, number in chain[:4]:
        value = b.op(prim, value, Lit(number, I64))
    results = b.one("gt", value, Lit(7, I64)), b.convert(value, F32), b.convert(value, I32)
    before, after = _narrowed(b, *results)
    for got, want in zip(run(after, []), run(before, []), strict=True):
        assert torch.equal(got, want)
    assert isinstance(before.eqns[0].attrs, A.Iota)
