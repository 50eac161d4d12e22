"""The graph's results: from the output node of an FX graph to values and a convention.

A result lies in the memory of an argument, or in memory that an operator of the graph makes; then
the graph returns all of that memory's value, and results are views of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from tpu_inductor.errors import Reject
from tpu_inductor.front.layout import dense_permutation
from tpu_inductor.front.storage import find_root, layout_of
from tpu_inductor.front.symbols import SYMBOLIC, Sizes, evaluate
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.prims import EAGER
from tpu_inductor.graph.signature import (
    ArgumentOutput,
    ConstantOutput,
    Layout,
    Output,
    SameAsResult,
    ScalarOutput,
    TensorOutput,
)


@dataclass(frozen=True, slots=True)
class _Storage:
    """Memory that the call makes: its number, and how a value lies in it."""

    number: int
    value: Var
    base: Layout


@dataclass(frozen=True, slots=True)
class _Binding:
    """What the results of one graph are made of."""

    b: Builder
    sizes: Sizes
    env: Mapping[Node, Any]
    arguments: Mapping[Node, int]
    eager: frozenset[Var]
    storages: dict[Node, _Storage] = field(default_factory=dict[Node, _Storage])


_RETURNED = "tpu_tile_returned"


def mark_returned(gm: GraphModule, count: int) -> None:
    """Notes that the user gets the first `count` results of `gm` alone.

    The others are what a forward saves for its backward, or gradients, which autograd gets.
    """
    gm.meta[_RETURNED] = count


def bind_outputs(
    b: Builder, gm: GraphModule, sizes: Sizes, env: Mapping[Node, Any]
) -> tuple[Output, ...] | Reject:
    """The results of `gm`, with the strides, offsets and shared memory that torch gives them."""
    (node,) = gm.graph.find_nodes(op="output")
    returned: Any = node.args[0]
    items = returned if isinstance(returned, tuple | list) else (returned,)
    placeholders = gm.graph.find_nodes(op="placeholder", sort=True)
    eager = frozenset(v for eqn in b.sink.eqns if eqn.prim == EAGER for v in eqn.outputs)
    binding = _Binding(b, sizes, env, {n: i for i, n in enumerate(placeholders)}, eager)
    results: list[Output] = []
    for i, item in enumerate(items):
        first = next((j for j in range(i) if items[j] is item), None)
        output = _bind_output(binding, item)
        if isinstance(output, Reject):
            return output
        if isinstance(output, TensorOutput) and i >= gm.meta.get(_RETURNED, len(items)):
            output = replace(output, is_returned=False)
        if first is not None and isinstance(output, TensorOutput | ArgumentOutput):
            output = SameAsResult(first)
        results.append(output)
    return tuple(results)


def output_values(outputs: tuple[Output, ...]) -> tuple[Value, ...]:
    """The graph values among the results, in order."""
    return tuple(o.value for o in outputs if isinstance(o, TensorOutput | ScalarOutput))


def with_values(outputs: tuple[Output, ...], values: tuple[Value, ...]) -> tuple[Output, ...]:
    """The same convention for a rewritten graph, whose outputs are `values` in the same order."""
    rest = iter(values)
    return tuple(
        replace(o, value=next(rest)) if isinstance(o, TensorOutput | ScalarOutput) else o
        for o in outputs
    )


def _bind_output(binding: _Binding, item: Any) -> Output | Reject:
    value = binding.env[item] if isinstance(item, Node) else item
    meta = item.meta.get("val") if isinstance(item, Node) else item
    if isinstance(meta, torch.Tensor) and isinstance(value, Var | Lit):
        return _bind_tensor(binding, item, meta)
    if isinstance(value, Var | Lit):
        return ScalarOutput(binding.b.tensor(value))
    if isinstance(value, SYMBOLIC):
        value = evaluate(value, binding.sizes)
    if value is None or isinstance(value, bool | int | float):
        return ConstantOutput(value)
    return Reject(f"the graph returns a {type(value).__name__}")


def _bind_tensor(binding: _Binding, item: Node, meta: torch.Tensor) -> Output:
    root, layout = find_root(item), layout_of(meta, binding.sizes)
    index = binding.arguments.get(root)
    if index is not None:
        return ArgumentOutput(
            index, None if root is item else _from_argument(binding, root, layout)
        )
    storage = _storage_of(binding, root)
    if layout.nbytes > storage.base.nbytes:
        # Its operator has a stranger view of memory than the IR; values are right either way.
        storage = _storage_of(binding, item)
    return TensorOutput(storage.value, storage.base, layout, storage.number)


def _from_argument(binding: _Binding, root: Node, layout: Layout) -> Layout:
    """`layout` with its offset counted from the first element of the argument `root`."""
    first = layout_of(root.meta["val"], binding.sizes)
    skipped = first.offset * first.dtype.itemsize // layout.dtype.itemsize
    return replace(layout, offset=layout.offset - skipped)


def _storage_of(binding: _Binding, root: Node) -> _Storage:
    if root not in binding.storages:
        value, base = _fill_storage(binding, root)
        binding.storages[root] = _Storage(len(binding.storages), value, base)
    return binding.storages[root]


def _fill_storage(binding: _Binding, root: Node) -> tuple[Var, Layout]:
    """The value to return for the memory of `root`, and how it lies there.

    A program gives its values in row-major order, so they are permuted to the order of memory
    where that is dense. What torch computes has torch's strides already.
    """
    b, value = binding.b, binding.b.tensor(binding.env[root])
    base = layout_of(root.meta["val"], binding.sizes)
    perm = dense_permutation(base.shape, base.strides)
    if perm is None or base.offset or value in binding.eager:
        return value, base
    value = b.transpose(value, perm)
    return value, Layout.row_major(base.dtype, value.type.dims)
