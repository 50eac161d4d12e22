"""What regions/mosaic.py admits to kernels compiles for TPUs: every primitive in every type."""

import itertools
from collections.abc import Iterator

import jax
import pytest
from gates import compile_graph
from kernel_graphs import BF16, BOOL, F32, I32, tensor

from tpu_inductor.aot.compile import compile_program
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Value, Var
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.graph.prims import BINARY, COMPARE, PRIMS, REDUCE, UNARY, Kind
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.regions.mosaic import COMPUTE, NO_LOWERING, reject_for_mosaic
from tpu_inductor.target import TARGETS, TpuTarget

SHAPE = (16, 256)
ADMITTED = (F32, BF16, I32, BOOL)

FLOAT_ONLY = frozenset(
    "exp exp2 log log2 log10 log1p sqrt rsqrt sin cos tan tanh erf logistic div".split()  # noqa: SIM905
)
INT_ONLY = frozenset(("and", "or", "xor", "shift_left", "shift_right", "not"))
OF_MASKS = frozenset(("not", "and", "or", "xor", "eq", "ne", "max", "min", "mul", "add"))


def is_meaningful(prim: str, dtype: DType) -> bool:
    """Whether a lowering may emit the primitive in this type."""
    if dtype is BOOL:
        return prim in OF_MASKS
    return prim not in (INT_ONLY if dtype.is_float else FLOAT_ONLY)


def pointwise(dtype: DType) -> Iterator[Eqn]:
    """Every pointwise primitive over `dtype`, with variables and with a literal."""
    x, y = (Var(name, TensorType(SHAPE, dtype)) for name in "xy")
    mask, one = Var("mask", TensorType(SHAPE, BOOL)), Builder().lit(2, dtype)
    operands: dict[str, list[tuple[Value, ...]]] = {
        **{prim: [(x,)] for prim in (*UNARY, "is_nan")},
        **{prim: [(x, y), (x, one), (one, y)] for prim in (*BINARY, *COMPARE)},
        "select": [(mask, x, y), (mask, one, y), (mask, x, one)],
    }
    for prim, every in operands.items():
        if is_meaningful(prim, dtype) or prim == "select":
            yield from (made(prim, inputs, A.NoAttrs()) for inputs in every)
    for to in ADMITTED:
        if to is not dtype:
            yield made("convert", (x,), A.Convert(to))


def reductions(dtype: DType, dims: tuple[int, ...]) -> Iterator[Eqn]:
    x = Var("x", TensorType(SHAPE, dtype))
    for prim in REDUCE:
        is_of_masks = prim in ("reduce_and", "reduce_or")
        if is_of_masks == (dtype is BOOL):
            yield made(prim, (x,), A.Dims(dims))
    if len(dims) == 1 and dtype is not BOOL:
        yield from (made(prim, (x,), A.Axis(dims[0])) for prim in ("argmax", "argmin"))


def made(prim: str, inputs: tuple[Value, ...], attrs: A.Attrs) -> Eqn:
    (out,) = PRIMS[prim].type_rule(attrs, *(v.type for v in inputs))
    return Eqn(prim, inputs, (Var(f"{prim}_out", out),), attrs, COMPILER)


def graph_of(eqns: list[Eqn]) -> Graph:
    """One graph with a result for each equation, over inputs that they share."""
    b = Builder()
    inputs: dict[Value, Var] = {}
    results: list[Value] = []
    for eqn in eqns:
        for v in eqn.operands:
            if v not in inputs:
                inputs[v] = tensor(b, v.name, v.type.dims, v.type.dtype)
        results += b.emit(eqn.prim, *(inputs.get(v, v) for v in eqn.inputs), attrs=eqn.attrs)
    return b.finish("admitted", results)


def error_of(eqns: list[Eqn], chip: TpuTarget) -> str:
    """What the compiler says against the equations as kernels, or nothing."""
    compiled = compile_graph(graph_of(eqns), chip)
    assert compiled.schedules, "no kernel was made"
    try:
        return compile_program(compiled.program, chip).error
    except (NotImplementedError, ValueError, jax.errors.JaxRuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def assert_compiles(eqns: list[Eqn], chip: TpuTarget) -> None:
    """All together, since each alone takes minutes; a failure names the culprits."""
    if error := error_of(eqns, chip):
        guilty = {str(e): text for e in eqns if (text := error_of([e], chip))}
        lines = [f"{eqn}\n    {text[:300]}" for eqn, text in guilty.items()]
        text = "\n".join(lines or [error])
        raise AssertionError(f"Mosaic does not lower for {chip.name}\n{text}")


# v4 has the oldest vector unit and lowers least.
every_chip = pytest.mark.parametrize(
    "chip",
    [
        pytest.param(t, id=t.name, marks=[] if t.name in ("v4", "v5e") else pytest.mark.slow)
        for t in TARGETS.values()
        if t.is_tpu
    ],
)


def admitted(eqns: Iterator[Eqn]) -> list[Eqn]:
    return [eqn for eqn in eqns if reject_for_mosaic(eqn) is None]


@pytest.mark.aot
@every_chip
@pytest.mark.parametrize("dtype", ADMITTED, ids=lambda d: d.short)
def test_every_admitted_pointwise_primitive_compiles(dtype, chip):
    eqns = admitted(pointwise(dtype))
    assert len(eqns) > 10
    assert_compiles(eqns, chip)


@pytest.mark.aot
@every_chip
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)], ids=["sublanes", "lanes", "both"])
def test_every_admitted_reduction_compiles(dims, chip):
    for dtype in ADMITTED:
        if eqns := admitted(reductions(dtype, dims)):
            assert_compiles(eqns, chip)


def test_the_types_under_test_are_those_admitted():
    assert set(ADMITTED) == COMPUTE


def test_every_primitive_is_admitted_or_rejected_with_a_reason():
    seen: dict[str, set[str]] = {}
    for dtype, dims in itertools.product(ADMITTED, [(1,)]):
        for eqn in (*pointwise(dtype), *reductions(dtype, dims)):
            refusal = reject_for_mosaic(eqn)
            seen.setdefault(eqn.prim, set()).add(refusal.reason if refusal else "")
    for prim in NO_LOWERING & set(seen):
        assert seen[prim] == {f"Mosaic does not lower {prim}"}
    kinds = (Kind.POINTWISE, Kind.REDUCE)
    known = {p.name for p in PRIMS.values() if p.kind in kinds}
    assert known - set(seen) <= {"bitcast"}


def reason(eqn: Eqn) -> str:
    refusal = reject_for_mosaic(eqn)
    assert refusal is not None, str(eqn)
    return refusal.reason


def test_refused_when_a_type_is_not_the_kernels():
    for dtype in (DType.F64, DType.I64, DType.F16, DType.I8, DType.U32):
        x = Var("x", TensorType(SHAPE, dtype))
        assert reason(made("neg", (x,), A.NoAttrs())) == (
            f"kernels do not compute in {dtype.short}"
        )


def test_refused_when_nothing_is_to_compute():
    empty = Var("x", TensorType((0, 4), F32))
    assert reason(made("neg", (empty,), A.NoAttrs())) == "an empty tensor"
    scalar = Var("x", TensorType((1, 1), F32))
    assert reason(made("neg", (scalar,), A.NoAttrs())) == "a scalar"


def test_refused_when_xla_owns_the_primitive():
    x = Var("x", TensorType(SHAPE, F32))
    assert reason(made("cumsum", (x,), A.Axis(0))) == "cumsum has no kernel, XLA runs it"
    assert reason(made("erf_inv", (x,), A.NoAttrs())) == "Mosaic does not lower erf_inv"


def test_refused_when_mosaic_lowers_it_for_wider_types_alone():
    x, mask = Var("x", TensorType(SHAPE, BF16)), Var("m", TensorType(SHAPE, BOOL))
    assert reason(made("log2", (x,), A.NoAttrs())) == "Mosaic does not lower log2 of bf16"
    assert "float32 accumulator" in reason(made("reduce_sum", (x,), A.Dims((0,))))
    assert "between masks" in reason(made("select", (mask, mask, mask), A.NoAttrs()))


def test_refused_when_the_mxu_has_no_such_product():
    x = Var("x", TensorType((16, 16), I32))
    product = made("dot", (x, x), A.Dot((1,), (0,), (), (), "highest", I32))
    assert reason(product) == "the MXU has no i32 x i32 -> i32"
