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
from torch._dynamo.exc import ShortenTraceback
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import get_aot_graph_name
from torch.fx import GraphModule

from tpu_inductor.debug.dump import observe_graph
from tpu_inductor.errors import Reject, Unsupported
from tpu_inductor.front.origins import check_op_names
from tpu_inductor.front.symbols import SizeSources, size_sources
from tpu_inductor.front.trace import trace_with
from tpu_inductor.options import Options
from tpu_inductor.pipeline import compile_graph
from tpu_inductor.runtime.boxed import Boxed, EagerGraph, as_boxed

log = logging.getLogger("tpu_inductor")


class BadOption(ShortenTraceback, ValueError):
    """A ValueError that Dynamo passes on as it is."""


class Refused(ShortenTraceback, Unsupported):
    """An Unsupported that Dynamo passes on as it is."""


def tpu_tile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Compiles one Dynamo graph. Raises ValueError for options that mean nothing."""
    try:
        parsed = Options.parse(mode, options)
        check_op_names(parsed.eager_ops)
    except ValueError as error:
        raise BadOption(str(error), first_useful_frame=None) from None
    backend = trace_with(functools.partial(compile_fx_graph, options=parsed))
    try:
        return backend(gm, example_inputs)
    except Unsupported as error:
        raise Refused(str(error), first_useful_frame=None) from None


def compile_fx_graph(gm: GraphModule, args: Sequence[Any], *, options: Options) -> Boxed:
    """One AOTAutograd graph as a boxed callable. Raises Unsupported in strict mode."""
    name = get_aot_graph_name()
    sources = size_sources(gm)
    if sources.symbols:
        return as_boxed(DynamicGraph(gm, name, sources, options))
    return as_boxed(compile_sized(gm, name, {}, options, set()))


def compile_sized(
    gm: GraphModule,
    name: str,
    sizes: Mapping[sympy.Symbol, int],
    options: Options,
    told: set[str],
) -> Boxed:
    """`gm` compiled for `sizes`, or `gm` itself to run in torch where that cannot be done.

    The reason is logged, and added to `told`, unless it is there already.
    """
    observe = observe_graph(options, name, gm)
    compiled = compile_graph(gm, name, sizes, options, observe)
    if not isinstance(compiled, Reject):
        return compiled
    observe("fallbacks", f"the whole graph: {compiled.reason}")
    if options.strict:
        raise Unsupported(
            f"{compiled.reason}; strict mode forbids to run graph {name} in torch. Drop the option "
            f"strict (or TPU_TILE_STRICT) to allow it"
        )
    if compiled.reason not in told:
        told.add(compiled.reason)
        log.warning("graph %s runs eagerly as a whole: %s", name, compiled.reason)
    calls = sum(node.op == "call_function" for node in gm.graph.nodes)
    counters["tpu_tile"]["eager_ops"] += calls
    return EagerGraph(gm)


class DynamicGraph:
    """A graph with symbolic shapes: one compiled graph for each set of sizes that it meets."""

    def __init__(self, gm: GraphModule, name: str, sources: SizeSources, options: Options) -> None:
        self.gm = gm
        self.name = name
        self.sources = sources
        self.options = options
        self._told: set[str] = set()
        self._compiled: dict[tuple[int, ...], Boxed] = {}

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        sizes = self.sources.bind(args)
        key = tuple(sizes.values())
        if key not in self._compiled:
            self._compiled[key] = compile_sized(self.gm, self.name, sizes, self.options, self._told)
        return self._compiled[key](args)
