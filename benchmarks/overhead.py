"""Splits the overhead of a call to a one-operation graph into its parts, in microseconds.

python benchmarks/overhead.py

    guards   Dynamo's guards and AOTAutograd's wrapper around a callable that does nothing
    jit      the jitted program on numpy views, until its result is ready
    graph    CompiledGraph.__call__: arguments checked and bound, the program, results as tensors

`jit` and `graph` are measured alone and inside a call of torch.compile, where both find the
processor's caches filled by Dynamo. "same" passes one tensor over and over, as a parameter is;
"fresh" passes another each time, as activations are.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import torch
from recorded import Recorder
from rich.console import Console
from rich.table import Table
from timing import Call, Times, in_turn

from tpu_inductor.front.trace import trace_with
from tpu_inductor.runtime.boxed import Boxed, as_boxed
from tpu_inductor.runtime.compiled import CompiledGraph
from tpu_inductor.runtime.load import load_program

BAR = 2.0
"""What a graph may cost, in jitted calls."""

SOURCE = "def add_one(x):\n    return x + 1.0\n"

Compiled = Callable[[torch.Tensor], Any]


def compile_with(run: Boxed) -> Compiled:
    """torch.compile with a backend that puts `run` in the place of the graph."""
    # A function of its own: Dynamo keeps what it compiles by code object.
    scope: dict[str, Any] = {}
    exec(SOURCE, scope)
    return torch.compile(scope["add_one"], backend=trace_with(lambda gm, args: as_boxed(run)))


def one_op_graph(x: torch.Tensor) -> CompiledGraph:
    recorder = Recorder({})
    torch.compile(lambda x: x + 1.0, backend=recorder.backend)(x)
    recorded = recorder.only()
    assert recorded is not None
    assert isinstance(recorded.compiled, CompiledGraph)
    return recorded.compiled


def jit_on_views(graph: CompiledGraph) -> Boxed:
    """The program of `graph` as little more than JAX itself would need; its result is not read."""
    (program,) = graph.plan.steps
    function = load_program(program.name, program.source)
    jitted = jax.jit(lambda *xs: function(*xs, interpret=True))
    results = (torch.ones(8),)

    def run(args: list[Any]) -> Sequence[Any]:
        with jax.enable_x64(True):
            arrays = jitted(*[arg.numpy() for arg in args])
        arrays[0].block_until_ready()
        return results

    return run


def measure() -> dict[str, Times]:
    """Times by "part where what", such as "graph inside fresh"."""
    same, many = torch.randn(8), itertools.cycle([torch.randn(8) for _ in range(3)])
    nothing = (torch.ones(8),)
    calls: dict[str, Call] = {}
    for what, give in (("same", lambda: same), ("fresh", lambda: next(many))):
        # A graph for each: it remembers the tensors of its last call.
        graph = one_op_graph(same)
        parts: dict[str, Boxed] = {
            "guards": lambda args: nothing,
            "jit": jit_on_views(graph),
            "graph": graph,
        }
        for part, run in parts.items():
            compiled = compile_with(run)
            compiled(same)
            calls[f"{part} inside {what}"] = lambda c=compiled, g=give: c(g())
            calls[f"{part} alone {what}"] = lambda r=run, g=give: r([g()])
    return in_turn(calls, rounds=2000, window=1e-4, limit=20.0)


def main() -> None:
    with torch.no_grad():
        times = measure()
    table = Table(title="microseconds (medians)")
    for column in ("tensors", "guards", "jit", "graph", "jit alone", "graph alone"):
        table.add_column(column, justify="right")
    console = Console()
    verdicts: list[str] = []
    for what in ("same", "fresh"):
        micro = {k: 1e6 * t.median for k, t in times.items()}
        guards = micro[f"guards inside {what}"]
        jit, graph = (micro[f"{p} inside {what}"] - guards for p in ("jit", "graph"))
        alone = micro[f"jit alone {what}"], micro[f"graph alone {what}"]
        table.add_row(what, *(f"{v:.0f}" for v in (guards, jit, graph, *alone)))
        verdict = "[green]met[/]   " if graph <= BAR * jit else "[red]missed[/]"
        verdicts.append(f"{verdict} {what}: graph / jit {graph / jit:.2f}, bar {BAR:.2f}")
    console.print(table)
    for verdict in verdicts:
        console.print(verdict, highlight=False)


if __name__ == "__main__":
    main()
