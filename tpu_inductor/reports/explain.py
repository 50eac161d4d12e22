"""What the compiler makes of a model: each region with its tier, tiles, memory and reasons.

>>> print(tpu_inductor.explain(model, ids, options={"target": "v5e"}))
graph model: 1 program, 1 kernel, 0 XLA ops, 0 eager ops
  program model(x: f32[4096,1024]) -> softmax: f32[4096,1024]
    softmax: pallas
      ops         aten._softmax
      ...

The model runs once, in torch, so that Dynamo sees all of its graphs; no program is run.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from rich.table import Table
from torch._functorch import config as aot_config
from torch._functorch.aot_autograd import get_aot_graph_name
from torch.fx import GraphModule

from tpu_inductor.codegen.program import Program
from tpu_inductor.debug.dump import observe_graph
from tpu_inductor.errors import Reject
from tpu_inductor.front.origins import check_op_names
from tpu_inductor.front.symbols import SizeSources, size_sources
from tpu_inductor.front.trace import trace_with
from tpu_inductor.graph.core import Var
from tpu_inductor.options import Options
from tpu_inductor.pipeline import Lowered, lower_graph, work_of
from tpu_inductor.regions.region import Segment
from tpu_inductor.reports.explain_region import RegionReport, report_region
from tpu_inductor.runtime.boxed import Boxed, EagerGraph, as_boxed

_UNITS = {
    "programs": "program",
    "kernels": "kernel",
    "xla_ops": "XLA op",
    "eager_ops": "eager op",
}


@dataclass(frozen=True, slots=True)
class ExplainedGraph:
    """One graph after all stages, or why it stays in torch as a whole."""

    name: str
    lowered: Lowered | Reject

    @property
    def work(self) -> Mapping[str, int]:
        """How much runs where; a graph that stays in torch counts nothing here."""
        if isinstance(self.lowered, Reject):
            return dict.fromkeys(_UNITS, 0)
        return work_of(self.lowered.scheduled)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The printed programs, in the order in which they run."""
        if isinstance(self.lowered, Reject):
            return ()
        return tuple(s for s in self.lowered.plan.steps if isinstance(s, Program))

    @property
    def regions(self) -> tuple[RegionReport, ...]:
        """All regions, in the order in which they run."""
        return tuple(r for _, reports in self._segments() for r in reports)

    def _segments(self) -> Iterator[tuple[Segment, tuple[RegionReport, ...]]]:
        if isinstance(self.lowered, Reject):
            return
        scheduled = self.lowered.scheduled
        for segment in scheduled.partition.segments:
            reports = (report_region(r, scheduled.schedules.get(r.name)) for r in segment.regions)
            yield segment, tuple(reports)

    def __str__(self) -> str:
        if isinstance(self.lowered, Reject):
            return f"graph {self.name}: runs in torch as a whole: {self.lowered.reason}\n"
        lines = [f"graph {self.name}: {_work_text(self.work)}"]
        names = iter(self.programs)
        for segment, reports in self._segments():
            if not segment.is_eager:
                ends = f"({_typed(segment.inputs)}) -> {_typed(segment.outputs)}"
                lines.append(f"  program {next(names).name}{ends}")
            lines += [f"    {line}" for report in reports for line in str(report).splitlines()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The graphs of one model for one target. `str` is all there is, `table()` an overview."""

    target: str
    graphs: tuple[ExplainedGraph, ...]

    @property
    def work(self) -> Mapping[str, int]:
        """`programs`, `kernels`, `xla_ops` and `eager_ops` of all graphs together."""
        return {key: sum(g.work[key] for g in self.graphs) for key in _UNITS}

    @property
    def programs(self) -> tuple[Program, ...]:
        """Every printed program; `source` is its text, a module that imports jax alone."""
        return tuple(p for g in self.graphs for p in g.programs)

    @property
    def regions(self) -> tuple[RegionReport, ...]:
        """Every region of every graph."""
        return tuple(r for g in self.graphs for r in g.regions)

    def __str__(self) -> str:
        count = f"{len(self.graphs)} graph{'' if len(self.graphs) == 1 else 's'}"
        head = f"tpu_tile for {self.target}: {count}, {_work_text(self.work)}\n"
        return "\n".join([head, *map(str, self.graphs)])

    def table(self) -> Table:
        """Regions as a rich table. Equal ones share a row, with their number."""
        table = Table(title=f"{_work_text(self.work)} for {self.target}", title_justify="left")
        for heading in ("runs as", "n", "operators", "tiles", "memory and time", "why"):
            table.add_column(heading, justify="right" if heading == "n" else "left")
        rows = Counter(report.cells for report in self.regions)
        for (tier, *cells), n in rows.items():
            table.add_row(tier, str(n), *cells)
        for graph in self.graphs:
            if isinstance(graph.lowered, Reject):
                table.add_row("eager", "1", f"graph {graph.name}", "", "", graph.lowered.reason)
        return table


def explain(
    model: Callable[..., Any],
    *args: Any,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    **kwargs: Any,
) -> Explanation:
    """What `torch.compile(model, backend="tpu_tile")` would do for these arguments.

    `options={"target": "v6e"}` explains for a TPU that need not be there; tensors may be on the
    meta device. Calls the model once, in torch. Clears Dynamo's caches, as torch._dynamo.explain
    does, so functions compiled before are compiled again at their next call.
    """
    parsed = Options.parse(mode, options)
    check_op_names(parsed.eager_ops)
    capture = _Capture(parsed)
    compiled = torch.compile(model, backend=trace_with(capture.compile))
    torch._dynamo.reset()
    try:
        # Backward graphs are otherwise lowered at the first backward pass, which nobody calls.
        with aot_config.patch(force_non_lazy_backward_lowering=True):
            compiled(*args, **kwargs)
    finally:
        torch._dynamo.reset()
    return Explanation(parsed.target or "cpu", tuple(capture.graphs))


@dataclass(frozen=True, slots=True)
class _Capture:
    """Lowers the graphs it is given and lets torch run them. Strict mode has nothing to refuse."""

    options: Options
    graphs: list[ExplainedGraph] = field(default_factory=list[ExplainedGraph])

    def compile(self, gm: GraphModule, args: Sequence[Any]) -> Boxed:
        name, sources, run = get_aot_graph_name(), size_sources(gm), EagerGraph(gm)
        if sources.symbols:
            return as_boxed(self._at_first_call(gm, name, sources, run))
        self._lower(gm, name, {})
        return as_boxed(run)

    def _at_first_call(self, gm: GraphModule, name: str, sources: SizeSources, run: Boxed) -> Boxed:
        def call(args: list[Any]) -> Sequence[Any]:
            self._lower(gm, name, sources.bind(args))
            return run(args)

        return call

    def _lower(self, gm: GraphModule, name: str, sizes: Mapping[sympy.Symbol, int]) -> None:
        observe = observe_graph(self.options, name, gm)
        lowered = lower_graph(gm, name, sizes, self.options, observe)
        if isinstance(lowered, Lowered):
            observe("steps", lowered.plan)
        self.graphs.append(ExplainedGraph(name, lowered))


def _work_text(work: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {_UNITS[key]}{'' if n == 1 else 's'}" for key, n in work.items())


def _typed(variables: tuple[Var, ...]) -> str:
    return ", ".join(f"{v.name}: {v.type}" for v in variables) or "()"
