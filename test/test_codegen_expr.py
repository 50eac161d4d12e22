"""Every spelling, evaluated by JAX on the CPU, against the interpreter."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import prim_cases
import pytest
import torch
from jax import lax
from jax.experimental import pallas as pl
from prim_cases import Case

from tpu_inductor.codegen.expr import SPELL, literal, spell
from tpu_inductor.codegen.expr_literal import typed_literal
from tpu_inductor.codegen.names import Names
from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.interp import run_eqn
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType, TensorType

_CASES = prim_cases.cases()
_BY_PRIM = {prim: [case for case in _CASES if case.prim == prim] for prim in PRIMS}


def to_jax(x: torch.Tensor) -> jax.Array:
    raw = x.contiguous()
    if x.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        bits = raw.view(torch.int16 if x.dtype.itemsize == 2 else torch.int8).numpy()
        return jnp.asarray(bits.view(jnp.dtype(str(x.dtype).removeprefix("torch."))))
    return jnp.asarray(raw.numpy())


def to_torch(x: jax.Array, dtype: DType) -> torch.Tensor:
    raw = np.array(x)
    if dtype in (DType.BF16, DType.F8E4M3, DType.F8E5M2):
        bits = raw.view(np.int16 if raw.itemsize == 2 else np.int8)
        return torch.from_numpy(bits).view(TORCH_DTYPE[dtype])
    return torch.from_numpy(raw)


def source(eqn: Eqn) -> Callable[..., object]:
    """The spelling of `eqn` as a function of its variables."""
    operands = [literal(v) if isinstance(v, Lit) else v.name for v in eqn.inputs]
    names = [v.name for v in eqn.inputs if isinstance(v, Var)]
    text = f"lambda {', '.join(names)}: {spell(eqn, operands)}"
    return eval(text, {"jax": jax, "jnp": jnp, "lax": lax})


def evaluate(cases: Sequence[Case]) -> list[tuple[jax.Array, ...]]:
    """The results of all `cases`, computed by one program: compiling each alone takes minutes."""
    functions = [source(case.eqn()) for case in cases]

    def program(operands: list[list[jax.Array]]) -> list[object]:
        return [f(*xs) for f, xs in zip(functions, operands, strict=True)]

    arrays = [[to_jax(x) for x in c.operands if not isinstance(x, Lit)] for c in cases]
    results = jax.jit(program)(arrays)
    return [r if isinstance(r, tuple) else (r,) for r in results]


def expected(case: Case, eqn: Eqn) -> tuple[torch.Tensor, ...]:
    tensors = [
        torch.tensor(x.value, dtype=TORCH_DTYPE[x.dtype]) if isinstance(x, Lit) else x
        for x in case.operands
    ]
    return run_eqn(eqn, tensors)


def check(case: Case, results: tuple[jax.Array, ...]) -> None:
    eqn = case.eqn()
    for var, got, want in zip(eqn.outputs, results, expected(case, eqn), strict=True):
        assert got.dtype == jnp.dtype(var.type.dtype.value.rstrip("_")), str(case)
        assert got.shape == var.type.dims, str(case)
        tolerance = _TOLERANCE.get(var.type.dtype, (0, 0))
        compare(to_torch(got, var.type.dtype), want, tolerance, str(case))


def compare(
    got: torch.Tensor, want: torch.Tensor, tolerance: tuple[float, float], where: str
) -> None:
    if not want.dtype.is_floating_point:
        assert got.tolist() == want.tolist(), where
        return
    rtol, atol = tolerance
    torch.testing.assert_close(
        got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True,
        msg=lambda m: f"{where}\n{m}\ngot {got}\nwant {want}",
    )  # fmt: skip


_TOLERANCE = {
    DType.F64: (1e-12, 1e-12),
    DType.F32: (2e-5, 2e-6),
    DType.BF16: (1.6e-2, 1e-3),
    DType.F16: (2e-3, 1e-4),
    DType.F8E4M3: (0, 0),
    DType.F8E5M2: (0, 0),
}


def has_64_bits(case: Case) -> bool:
    eqn = case.eqn()
    return any(v.type.dtype.itemsize == 8 for v in (*eqn.inputs, *eqn.outputs))


def batches(cases: list[Case], size: int) -> list[list[Case]]:
    return [cases[i : i + size] for i in range(0, len(cases), size)]


def test_every_primitive_is_spelled_and_has_cases():
    assert set(SPELL) == set(PRIMS)
    assert all(_BY_PRIM.values())


@pytest.mark.parametrize("prim", list(PRIMS))
def test_spelling_means_what_the_interpreter_computes(prim):
    with jax.enable_x64(True):
        failures = []
        for batch in batches(_BY_PRIM[prim], 64):
            for case, results in zip(batch, evaluate(batch), strict=True):
                try:
                    check(case, results)
                except AssertionError as error:
                    failures.append(str(error))
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:20])


@pytest.mark.parametrize("prim", list(PRIMS))
def test_result_types_are_exact_without_x64(prim):
    for case in _BY_PRIM[prim]:
        # The values are the other test's subject: a few cases per type do.
        if "rlit" not in case.label and not has_64_bits(case):
            check_types(case)


def check_types(case: Case) -> None:
    eqn = case.eqn()
    with jax.enable_x64(False):
        shapes = [
            jax.ShapeDtypeStruct(v.type.dims, jnp.dtype(v.type.dtype.value.rstrip("_")))
            for v in eqn.inputs
            if isinstance(v, Var)
        ]
        result = jax.eval_shape(source(eqn), *shapes)
    results = result if isinstance(result, tuple) else (result,)
    for var, got in zip(eqn.outputs, results, strict=True):
        assert got.dtype == jnp.dtype(var.type.dtype.value.rstrip("_")), str(case)
        assert got.shape == var.type.dims, str(case)


KERNEL_PRIMS = [p.name for p in PRIMS.values() if p.kind is not Kind.OTHER]


@pytest.mark.parametrize("prim", KERNEL_PRIMS)
def test_spellings_trace_inside_a_pallas_kernel(prim):
    for case in _BY_PRIM[prim]:
        eqn = case.eqn()
        sized = all(v.type.size for v in (*eqn.inputs, *eqn.outputs))
        if sized and not has_64_bits(case) and "rlit" not in case.label:
            trace_kernel(eqn)


def trace_kernel(eqn: Eqn) -> None:
    """Fails where the spelling captures an array, which kernels may not."""
    function = source(eqn)

    def kernel(*refs: object) -> None:
        refs[-1][...] = function(*(r[...] for r in refs[:-1]))

    with jax.enable_x64(False):
        out = jax.ShapeDtypeStruct(
            eqn.out.type.dims, jnp.dtype(eqn.out.type.dtype.value.rstrip("_"))
        )
        operands = [
            jax.ShapeDtypeStruct(v.type.dims, jnp.dtype(v.type.dtype.value.rstrip("_")))
            for v in eqn.inputs
            if isinstance(v, Var)
        ]
        jax.eval_shape(pl.pallas_call(kernel, out_shape=out, interpret=True), *operands)


def test_literals_read_back():
    for value in (0.1, -0.0, math.inf, -math.inf, 1e300):
        read = eval(literal(Lit(value, DType.F64)), {"jnp": jnp})
        assert read == value
        assert math.copysign(1, read) == math.copysign(1, value)
    assert literal(Lit(math.nan, DType.F32)) == "jnp.nan"
    assert literal(Lit(True, DType.BOOL)) == "True"
    assert typed_literal(Lit(1.5, DType.BF16)) == "jnp.bfloat16(1.5)"
    assert literal(Lit(2**64 - 1, DType.U64)) == "jnp.uint64(18446744073709551615)"


def test_text_is_readable():
    row = TensorType((4, 8), DType.F32)
    x, y = Var("x", row), Var("y", row)
    assert spell(_eqn("add", x, y), ["x", "y"]) == "x + y"
    assert spell(_eqn("sub", x, Lit(-1.0, DType.F32)), ["x", "-1.0"]) == "x - -1.0"
    assert spell(_eqn("exp", x), ["x"]) == "jnp.exp(x)"
    assert spell(_eqn("neg", x), ["x_ref[...]"]) == "-x_ref[...]"


def _eqn(prim: str, *inputs) -> Eqn:
    attrs = prim_cases.A.NoAttrs()
    types = PRIMS[prim].type_rule(attrs, *(v.type for v in inputs))
    return Eqn(prim, inputs, tuple(Var("out", t) for t in types), attrs, prim_cases.COMPILER)


def test_names_do_not_shadow_and_stay_distinct():
    names = Names()
    given = ["not", "not_", "lambda", "jnp", "jnp_", "sum", "mul", "mul_2", "2x", "é", "a b"]
    made = [names.of(Var(name, TensorType((), DType.F32))) for name in given]
    assert made[:7] == ["not_", "not__", "lambda_", "jnp_", "jnp__", "sum_", "mul"]
    assert len(set(made)) == len(given)
    assert all(name.isidentifier() for name in made)
