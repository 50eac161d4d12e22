"""The kernels of torch functions: traced once, lowered for any chip, each text compiled once.

graphs = trace(function, *args)
compiler.compile(kernel_requests(graphs, "v4", "pallas"))
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._functorch.aot_autograd import get_aot_graph_name
from torch.fx import GraphModule

from tpu_inductor.aot.messages import CompileReply, CompileRequest, argument_of
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import Reject
from tpu_inductor.front.trace import trace_with
from tpu_inductor.options import Options
from tpu_inductor.pipeline import lower_graph
from tpu_inductor.runtime.boxed import Boxed, EagerGraph, as_boxed

KERNEL_S = 300.0
"""What one kernel may take on a slow machine: more means that its code is far too long."""

Key = tuple[str, tuple[object, ...], str]


@dataclass(frozen=True)
class Graph:
    """A functional ATen graph and the name of its program."""

    name: str
    module: GraphModule


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Graph]:
    """The graphs of a function, which runs once, in torch, without gradients."""
    found: list[Graph] = []

    def keep(gm: GraphModule, args: Sequence[Any]) -> Boxed:
        found.append(Graph(get_aot_graph_name(), gm))
        return as_boxed(EagerGraph(gm))

    torch._dynamo.reset()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        torch.compile(function, backend=trace_with(keep))(*args, **kwargs)
    torch._dynamo.reset()
    return found


def kernel_requests(graphs: Sequence[Graph], chip: str, prefer: str) -> dict[Key, CompileRequest]:
    """Each distinct kernel of the graphs: by its text, its arguments and the chip."""
    return {
        (text, request.arguments, chip): request
        for graph in graphs
        for text, request in _requests(graph, chip, prefer)
    }


def _requests(graph: Graph, chip: str, prefer: str) -> Iterator[tuple[str, CompileRequest]]:
    options = Options(target=chip, prefer=prefer)
    lowered = lower_graph(graph.module, graph.name, {}, options, lambda stage, value: None)
    assert not isinstance(lowered, Reject), lowered.reason
    for program in lowered.plan.steps:
        for call in program.calls if isinstance(program, Program) else ():
            schedule = lowered.scheduled.schedules[call.region]
            arguments = tuple(argument_of(o.var) for o in schedule.inputs)
            yield (
                call.kernel.text,
                CompileRequest(
                    call.function,
                    program.source,
                    arguments,
                    chip,
                    entry=call.function,
                    is_priced=False,
                ),
            )


@dataclass(frozen=True)
class OnceCompiler:
    """Compiles kernels through `pool`, each once, and keeps the replies."""

    pool: CompilerPool
    kept: dict[Key, CompileReply] = field(default_factory=dict)

    def compile(self, requests: dict[Key, CompileRequest]) -> list[CompileReply]:
        """One reply for each request, in order."""
        todo = {key: r for key, r in requests.items() if key not in self.kept}
        self.kept.update(zip(todo, self.pool.run(todo.values()), strict=True))
        return [self.kept[key] for key in requests]


def tell_failures(replies: Sequence[CompileReply]) -> str:
    """What does not compile, and why; empty if everything does."""
    failed = [r.result for r in replies if not r.result.ok]
    return "\n\n".join(f"{r.target} {r.name}: {r.error[:1500]}" for r in failed)
