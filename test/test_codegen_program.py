"""Programs: stand-alone text, the same every time, with one function for equal kernels."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import kernel_graphs as K
import pytest
from gates import CHIPS, Compiled, check_compiles, compile_graph
from kernel_graphs import BF16, F32, I64, build, dot, tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.origin import Origin
from tpu_inductor.runtime.load import load_program
from tpu_inductor.target import target

ALLOWED = {"functools", "jax", "jax.numpy", "jax.experimental", "jax.experimental.pallas"}


def source(graph: Graph, chip: str = "v5e", prefer: str = "pallas") -> str:
    return compile_graph(graph, target(chip), prefer).program.source


def layers(b: Builder, count: int = 3):
    """Equal layers with weights of their own."""
    x = tensor(b, "x", (64, 256))
    for i in range(count):
        w, bias = tensor(b, f"w_{i}", (256, 256)), tensor(b, f"bias_{i}", (256,))
        x = b.op("tanh", b.op("add", dot(b, x, w), bias))
    return x


def mixed(b: Builder):
    """A kernel, XLA's cumsum over 64-bit integers, and another kernel."""
    x = tensor(b, "x", (64, 256))
    counts = b.one("cumsum", b.iota((64, 1), I64, 0), attrs=A.Axis(0))
    y = b.op("mul", b.op("exp", x), b.op("add", x, b.lit(1, F32)))
    z = b.one("cumsum", y, attrs=A.Axis(0))
    return [b.op("mul", b.op("neg", z), b.convert(counts, F32)), counts]


def test_the_module_imports_jax_alone():
    tree = ast.parse(source(build(mixed)))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add(node.module)
    assert found <= ALLOWED


def test_the_program_is_a_pure_function_of_its_inputs():
    compiled = compile_graph(build(mixed))
    program = load_program("mixed", compiled.program.source)
    assert program.__name__ == "program"
    assert [v.name for v in compiled.program.inputs] == ["x"]
    assert len(compiled.program.outputs) == 2


def test_equal_kernels_share_one_function():
    """All layers but the first, whose input has another name."""
    assert source(build(layers, 3)).count("pl.pallas_call(") == 2
    assert source(build(layers, 7)).count("pl.pallas_call(") == 2


def test_the_text_grows_by_a_line_per_equal_layer():
    few, many = (len(source(build(layers, n)).splitlines()) for n in (2, 12))
    assert many - few == 10


def test_a_line_says_where_it_comes_from():
    b = Builder()
    x = tensor(b, "x", (64, 256))
    at = b.at(Origin("aten.exp", "exp", "/home/me/model.py", 88, "y = x.exp()"), "exp", ())
    b.finish("placed", [at.op("exp", x)])
    text = source(b.finish("placed", [at.op("exp", x)]))
    assert "# aten.exp at model.py:88" in text
    assert "/home/me" not in text


def test_the_text_is_the_same_in_another_process():
    here = [source(build(make)) for make in (mixed, layers, K.rms_norm)]
    code = (
        "import test_codegen_program as t, kernel_graphs as K; from kernel_graphs import build;"
        "print([t.source(build(m)) for m in (t.mixed, t.layers, K.rms_norm)])"
    )
    folder = Path(__file__).parent
    environ = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(run.stdout) == here


def test_targets_and_preferences_change_the_text():
    graph = build(K.softmax, (4096, 1000))
    texts = {source(graph, chip, p) for chip, p in (("cpu", "pallas"), ("v5e", "pallas"))}
    texts.add(source(graph, "cpu", "xla"))
    assert len(texts) == 3
    assert "pallas_call" not in source(graph, "cpu", "xla")


@pytest.mark.aot
@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_kernels_and_64_bit_operations_compile_in_one_program(chip):
    compiled = compile_graph(build(mixed), chip)
    assert kernels_and_lines(compiled) == (2, True)
    check_compiles(build(mixed), [chip])


def kernels_and_lines(compiled: Compiled) -> tuple[int, bool]:
    return len(compiled.schedules), "jnp.cumsum" in compiled.program.source or (
        "cumsum" in compiled.program.source
    )


def test_a_program_without_kernels_is_plain_jax():
    def wide(b: Builder):
        return b.op("add", tensor(b, "x", (4,), I64), b.lit(2**40, I64))

    text = source(build(wide))
    assert "pallas_call" not in text
    assert "1099511627776" in text


def test_bfloat16_results_are_rounded_where_torch_rounds():
    text = source(build(K.rms_norm, (2, 33, 640), BF16))
    assert text.count(".astype(jnp.bfloat16)") == 3
