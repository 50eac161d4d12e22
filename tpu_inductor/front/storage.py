"""Which memory a tensor of an FX graph lies in, read off the storages of the fake tensors."""

from collections.abc import Iterator

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from tpu_inductor.front.dtypes import from_torch_dtype
from tpu_inductor.front.symbols import Sizes, evaluate, static_shape, static_strides
from tpu_inductor.graph.signature import Layout


def find_root(node: Node) -> Node:
    """The tensor whose operator made the memory of `node`: a view's base, or `node` itself.

    The way there leads from result to operand. Placeholders may share memory when a graph is
    traced and not when it is called, so it matters through which of them a view looks.
    """
    storage = _storage(node.meta["val"])
    root = node
    source = _sharing_operand(node, storage)
    while source is not None:
        if isinstance(source.meta["val"], torch.Tensor):
            root = source
        source = _sharing_operand(source, storage)
    return root


def layout_of(tensor: torch.Tensor, sizes: Sizes) -> Layout:
    """Where `tensor`, whose type the graph IR knows, lies in its storage."""
    dtype = from_torch_dtype(tensor.dtype)
    assert dtype is not None  # check_whole_graph has looked at it
    offset = evaluate(tensor.storage_offset(), sizes)
    return Layout(dtype, static_shape(tensor, sizes), static_strides(tensor, sizes), offset)


def _sharing_operand(node: Node, storage: int) -> Node | None:
    return next((n for n in node.all_input_nodes if storage in _storages(n)), None)


def _storages(node: Node) -> Iterator[int]:
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            yield _storage(value)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
