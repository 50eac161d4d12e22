"""The torch.compile backend "oracle": imports a graph and runs it in the interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch.fx import GraphModule

from tpu_inductor.errors import Reject
from tpu_inductor.front.decompose import decompositions
from tpu_inductor.front.import_fx import Imported, import_fx
from tpu_inductor.front.memory import lay_out
from tpu_inductor.front.symbols import bind_sizes
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.prims import EAGER
from tpu_inductor.graph.signature import (
    ArgumentOutput,
    ConstantOutput,
    SameAsResult,
    ScalarInput,
    ScalarOutput,
    TensorInput,
)
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.runtime.results import read_argument, read_view

LOG: list[str] = []
"""Why operators ran in torch, for tests to look at; `PRINT` prints graphs too."""
PRINT: list[bool] = []


def call_imported(imported: Imported, args: Sequence[Any]) -> list[Any]:
    """The results of an imported graph for the arguments of its FX graph."""
    tensors: list[torch.Tensor] = []
    for given, arg in zip(imported.signature.inputs, args, strict=True):
        if isinstance(given, TensorInput):
            assert tuple(arg.shape) == given.shape
            dense = arg.detach().permute(given.perm)
            assert given.copy or dense.is_contiguous()
            tensors.append(dense.contiguous())
        elif isinstance(given, ScalarInput):
            tensors.append(torch.tensor(arg, dtype=TORCH_DTYPE[given.var.type.dtype]))
    values = iter(run(imported.graph, [*tensors, *(t for _, t in imported.constants)]))
    results: list[Any] = []
    storages: dict[int, torch.Tensor] = {}
    for output in imported.signature.outputs:
        if isinstance(output, ConstantOutput):
            results.append(output.value)
        elif isinstance(output, SameAsResult):
            results.append(results[output.index])
        elif isinstance(output, ScalarOutput):
            results.append(next(values).item())
        elif isinstance(output, ArgumentOutput):
            given = imported.signature.inputs[output.index]
            results.append(read_argument(0, given, output.layout)([args[output.index]], results))
        else:
            value = next(values)
            memory = storages.setdefault(output.storage, lay_out(value, output.base))
            results.append(read_view(0, output.base, output.layout)([memory], results))
    return results


def compile_oracle(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    def call(args: list[Any]) -> list[Any]:
        with torch.no_grad():
            imported = import_fx(gm, "oracle", bind_sizes(gm, args))
            if isinstance(imported, Reject):
                LOG.append(imported.reason)
                counters["tpu_tile"]["eager_ops"] += sum(
                    n.op == "call_function" for n in gm.graph.nodes
                )
                return list(gm(*args))
            if PRINT:
                print(imported.graph)
            eager = [e for e in imported.graph.eqns if e.prim == EAGER]
            LOG.extend(e.attrs.reason for e in eager)
            counters["tpu_tile"]["eager_ops"] += len(eager)
            counters["tpu_tile"]["programs"] += 1
            return call_imported(imported, args)

    call._boxed_call = True
    return call


@register_backend(name="oracle")
def oracle(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    backend = aot_autograd(
        fw_compiler=compile_oracle, bw_compiler=compile_oracle, decompositions=decompositions()
    )
    return backend(gm, example_inputs)
