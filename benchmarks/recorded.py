"""A torch.compile backend like `tpu_tile` that keeps the compiled graphs and their arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch
from torch.fx import GraphModule

from tpu_inductor.backend import compile_sized
from tpu_inductor.codegen.program import Program
from tpu_inductor.front.trace import trace_with
from tpu_inductor.graph.signature import TensorInput
from tpu_inductor.options import Options
from tpu_inductor.runtime.boxed import Boxed, as_boxed
from tpu_inductor.runtime.compiled import CompiledGraph
from tpu_inductor.runtime.interop import view_numpy
from tpu_inductor.runtime.load import load_program


@dataclass(slots=True)
class Recorded:
    """One graph: the callable that AOTAutograd got, and what it was last called with."""

    compiled: Boxed
    args: list[Any]

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        self.args = list(args)
        return self.compiled(args)

    def call_graph(self) -> Sequence[Any]:
        """The graph alone: no guards, no wrapper of AOTAutograd."""
        return self.compiled(list(self.args))


class Recorder:
    """`backend` is for torch.compile; `graphs` fills while it compiles."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = Options.parse(None, options)
        self.graphs: list[Recorded] = []
        self.backend: Callable[..., Any] = trace_with(self._compile)

    def _compile(self, gm: GraphModule, args: Sequence[Any]) -> Boxed:
        name = f"graph_{len(self.graphs)}"
        recorded = Recorded(compile_sized(gm, name, {}, self.options, set()), [])
        self.graphs.append(recorded)
        return as_boxed(recorded)

    def only(self) -> Recorded | None:
        """The graph, where there is one, and all of it is one program."""
        if len(self.graphs) != 1:
            return None
        graph = self.graphs[0].compiled
        is_whole = isinstance(graph, CompiledGraph) and len(graph.plan.steps) == 1
        return self.graphs[0] if is_whole and isinstance(graph.plan.steps[0], Program) else None


def plain_jit(recorded: Recorded) -> Callable[[], Any]:
    """The program of a graph under jax.jit, called with jax arrays: what JAX itself would cost."""
    assert isinstance(recorded.compiled, CompiledGraph)
    plan = recorded.compiled.plan
    (program,) = plan.steps
    assert isinstance(program, Program)
    tensors = dict(plan.constants)
    for given, arg in zip(plan.signature.inputs, recorded.args, strict=True):
        if isinstance(given, TensorInput):
            tensors[given.var] = arg.detach().permute(given.perm)
    with jax.enable_x64(True):
        arrays = [jax.device_put(view_numpy(tensors[v], v.type.dtype)) for v in program.inputs]
    function = load_program(program.name, program.source)
    jitted = jax.jit(lambda *xs: function(*xs, interpret=True))

    def call() -> Any:
        with jax.enable_x64(True):
            results = jitted(*arrays)
        for result in results:
            result.block_until_ready()
        return results

    return call


def first_tensor(result: Any) -> torch.Tensor:
    """A result as a tensor, from torch or from jax."""
    while isinstance(result, tuple | list):
        result = result[0]
    return result if isinstance(result, torch.Tensor) else torch.from_dlpack(result)
