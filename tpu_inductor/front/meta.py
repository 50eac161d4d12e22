"""Traces a graph of meta tensors as one of CPU tensors, so that both lower alike.

Torch takes operators apart by device before AOTAutograd sees them: attention is one operator on the
CPU and three on the meta device, and cross entropy has no gradient there. What a model compiles to
must not depend on that.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from tpu_inductor.errors import Unsupported
from tpu_inductor.front.symbols import (
    Sizes,
    bind_sizes,
    evaluate,
    is_sized,
    static_shape,
    static_strides,
)

_CPU = torch.device("cpu")
_META = torch.device("meta")


def trace_on_cpu(gm: GraphModule, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments to trace `gm` with: fake CPU tensors, if some are meta tensors.

    Then `gm` makes its tensors on the CPU as well.
    """
    if not any(isinstance(arg, Tensor) and arg.is_meta for arg in args):
        return args
    for module in gm.modules():
        if isinstance(module, GraphModule):
            _make_on_cpu(module)
    given = gm.graph.find_nodes(op="placeholder", sort=True)
    fakes = _on_cpu([node.meta["example_value"] for node in given])
    pairs = zip(args, fakes, strict=True)
    return [fake if isinstance(arg, Tensor) and arg.is_meta else arg for arg, fake in pairs]


def _make_on_cpu(module: GraphModule) -> None:
    for node in module.graph.nodes:
        node.args = map_aggregate(node.args, _named_cpu)
        node.kwargs = map_aggregate(node.kwargs, _named_cpu)
    module.recompile()


def _named_cpu(leaf: Any) -> Any:
    return _CPU if leaf == _META or leaf == "meta" else leaf


def _on_cpu(args: Sequence[Any]) -> Iterator[Any]:
    """Of Dynamo's fake `args`, the meta tensors on the CPU; those that share a storage still do."""
    storages: dict[int, torch.UntypedStorage] = {}
    for arg in args:
        if not isinstance(arg, FakeTensor) or not arg.is_meta:
            yield arg
            continue
        with arg.fake_mode:
            key = arg.untyped_storage()._cdata
            if key not in storages:
                size = arg.untyped_storage().nbytes()
                memory = torch.empty(size, dtype=torch.uint8, device=_CPU)
                storages[key] = memory.untyped_storage()
            yield _see(storages[key], arg)


def _see(storage: torch.UntypedStorage, arg: Tensor) -> Tensor:
    """A CPU tensor in `storage` that is as `arg` to autograd."""
    with torch.no_grad():
        made = torch.empty(0, dtype=arg.dtype, device=_CPU)
        made.set_(storage, arg.storage_offset(), arg.shape, arg.stride())
    made.requires_grad_(arg.requires_grad)
    return made if arg.is_leaf else made.view_as(made)


def results_on_meta(gm: GraphModule, args: Sequence[Any]) -> list[Any]:
    """What `gm`, traced on the CPU, gives for meta tensors: results of its types without data.

    Raises Unsupported where a size depends on data.
    """
    sizes = bind_sizes(gm, args)
    (output,) = gm.graph.find_nodes(op="output")
    items = [item.meta["val"] if isinstance(item, Node) else item for item in output.args[0]]
    return [_result_on_meta(item, sizes) for item in items]


def _result_on_meta(item: Any, sizes: Sizes) -> Any:
    parts = (*item.shape, *item.stride()) if isinstance(item, Tensor) else (item,)
    if not all(is_sized(part, sizes) for part in parts):
        raise Unsupported(
            "a result depends on the data of tensors, which those on the meta device lack: use "
            "tensors on the CPU"
        )
    if not isinstance(item, Tensor):
        return evaluate(item, sizes)
    shape, strides = static_shape(item, sizes), static_strides(item, sizes)
    return torch.empty_strided(shape, strides, dtype=item.dtype, device=_META)
