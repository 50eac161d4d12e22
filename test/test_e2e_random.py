"""Random graphs: compiled for the CPU and for a TPU's tiles, against the interpreter.

`pytest test/test_e2e_random.py --hypothesis-profile=long` looks for what CI's examples miss.
"""

import pytest
import torch
from gates import compile_graph, execute, execute_checked, small_target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from noise import Bounds
from random_graphs import graphs, inputs_for

from tpu_inductor.aot.compile import compile_program
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.narrow import narrow_integers
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.slices import slice_before_transposing
from tpu_inductor.target import TpuTarget, target

CPU = target("cpu")
SMALL = small_target(192 << 10)
SEEDS = st.integers(0, 99)

differential = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(differential, max_examples=10 * settings().max_examples)
@given(graph=graphs())
def test_every_graph_has_kernels_that_can_be_printed(graph):
    """Takes a hundredth of the time of running one: some forms are one graph in a hundred."""
    compile_graph(prepare(graph), CPU, prefer="pallas")


@differential
@given(graph=graphs(), seed=SEEDS, special=st.booleans())
def test_the_cpu_computes_what_the_interpreter_says(graph, seed, special):
    check(graph, inputs_for(graph, seed, special), CPU)


@differential
@given(graph=graphs(), seed=SEEDS)
def test_the_tiles_of_a_tpu_compute_what_the_interpreter_says(graph, seed):
    check(graph, inputs_for(graph, seed), SMALL)


@differential
@given(graph=graphs(), seed=SEEDS, special=st.booleans())
def test_tpu_semantics_compute_what_the_interpreter_says(graph, seed, special):
    check(graph, inputs_for(graph, seed, special), SMALL, run=execute_checked)


def check(
    graph: Graph, inputs: list[torch.Tensor], chip: TpuTarget, *, run=execute, prefer="pallas"
) -> None:
    """Compiles `graph` for `chip` and compares what its program computes with the interpreter."""
    bounds = Bounds.of(graph, inputs)
    simple = prepare(graph)
    compiled = compile_graph(simple, chip, prefer=prefer)
    got = run(simple, compiled.program, inputs)
    bounds.check(got, f"{graph}\n{compiled.scheduled.partition}\n{compiled.program.source}")


def prepare(graph: Graph) -> Graph:
    """`graph` as the pipeline has it when it asks for regions."""
    return narrow_integers(slice_before_transposing(simplify(graph)))


@pytest.mark.aot
@settings(differential, max_examples=15)
@given(graph=graphs())
def test_libtpu_compiles_what_is_made_of_them(graph):
    simple = prepare(graph)
    compiled = compile_graph(simple, SMALL)
    if compiled.schedules:
        result = compile_program(compiled.program, SMALL)
        assert result.ok, f"{result.error}\n{graph}\n{compiled.program.source}"
