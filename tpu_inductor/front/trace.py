"""Has AOTAutograd trace a Dynamo graph: functional, decomposed, forward and backward apart."""

from collections.abc import Callable, Sequence
from typing import Any

from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule

from tpu_inductor.front.decompose import decompositions
from tpu_inductor.front.encoder import spell_layers
from tpu_inductor.front.meta import trace_on_cpu
from tpu_inductor.front.outputs import mark_returned
from tpu_inductor.front.rng_state import type_rng_states


def trace_with(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A Dynamo backend that hands `compiler(gm, args)` every functional ATen graph."""

    def compile_real(gm: GraphModule, args: Sequence[Any]) -> Any:
        # AOTAutograd still traces with fake tensors here; a graph's constants are real ones.
        type_rng_states(gm)
        with unset_fake_temporarily():
            return compiler(gm, args)

    def compile_forward(gm: GraphModule, args: Sequence[Any]) -> Any:
        metadata = TracingContext.get().fw_metadata
        assert metadata is not None  # AOTAutograd has set it before it compiles anything
        mark_returned(gm, metadata.num_forward_returns)
        return compile_real(gm, args)

    def compile_backward(gm: GraphModule, args: Sequence[Any]) -> Any:
        mark_returned(gm, 0)
        return compile_real(gm, args)

    backend = aot_autograd(
        fw_compiler=compile_forward,
        bw_compiler=compile_backward,
        inference_compiler=compile_real,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )

    def trace(gm: GraphModule, args: Sequence[Any]) -> Callable[..., Any]:
        spell_layers(gm)
        return backend(gm, trace_on_cpu(gm, args))

    return trace
