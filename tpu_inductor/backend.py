"""The torch.compile backend `tpu_tile`, found through the `torch_dynamo_backends` entry point.

Dynamo hands over an FX graph; AOTAutograd makes it functional, takes ATen operators apart and cuts
training graphs into forward and backward; each part is compiled here. A part that cannot be
compiled at all runs in torch, with the reason in the log.
"""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import get_aot_graph_name
from torch.fx import GraphModule

from tpu_inductor.errors import Reject, Unsupported
from tpu_inductor.front.decompose import decompositions
from tpu_inductor.front.symbols import SizeSources, size_sources
from tpu_inductor.options import Options
from tpu_inductor.pipeline import compile_graph

log = logging.getLogger("tpu_inductor")

Boxed = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph as AOTAutograd calls it: one list, which the callee may empty."""


def tpu_tile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Compiles one Dynamo graph. Raises ValueError for options that mean nothing."""
    compiler = functools.partial(compile_fx_graph, options=Options.parse(mode, options))
    backend = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    return backend(gm, example_inputs)


def compile_fx_graph(gm: GraphModule, args: Sequence[Any], *, options: Options) -> Boxed:
    """One AOTAutograd graph as a boxed callable. Raises Unsupported in strict mode."""
    name = get_aot_graph_name()
    sources = size_sources(gm)
    if sources.symbols:
        return as_boxed(DynamicGraph(gm, name, sources, options))
    return as_boxed(compile_sized(gm, name, {}, options))


def as_boxed(run: Boxed) -> Boxed:
    """`run` as a function that carries torch's mark of the boxed convention.

    A class attribute would not do: Dynamo wraps backward graphs and copies what is in `__dict__`.
    """

    def call(args: list[Any]) -> Sequence[Any]:
        return run(args)

    call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return call


def compile_sized(
    gm: GraphModule, name: str, sizes: Mapping[sympy.Symbol, int], options: Options
) -> Boxed:
    """`gm` compiled for `sizes`, or `gm` itself to run in torch where that cannot be done."""
    compiled = compile_graph(gm, name, sizes, options, _ignore)
    if not isinstance(compiled, Reject):
        return compiled
    if options.strict:
        raise Unsupported(
            f"{compiled.reason}; strict mode forbids to run graph {name} in torch. Drop the option "
            f"strict (or TPU_TILE_STRICT) to allow it"
        )
    log.warning("graph %s runs eagerly as a whole: %s", name, compiled.reason)
    calls = sum(node.op == "call_function" for node in gm.graph.nodes)
    counters["tpu_tile"]["eager_ops"] += calls
    return EagerGraph(gm)


def _ignore(stage: str, value: object) -> None:
    """The observer of stages that looks at none."""


class EagerGraph:
    """An FX graph that runs in torch, node by node."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        interpreter = torch.fx.Interpreter(self.gm)
        with torch.no_grad():
            return interpreter.boxed_run(args)


class DynamicGraph:
    """A graph with symbolic shapes: one compiled graph for each set of sizes that it meets."""

    def __init__(self, gm: GraphModule, name: str, sources: SizeSources, options: Options) -> None:
        self.gm = gm
        self.name = name
        self.sources = sources
        self.options = options
        self._compiled: dict[tuple[int, ...], Boxed] = {}

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        sizes = self.sources.bind(args)
        key = tuple(sizes.values())
        if key not in self._compiled:
            self._compiled[key] = compile_sized(self.gm, self.name, sizes, self.options)
        return self._compiled[key](args)
