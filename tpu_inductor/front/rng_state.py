"""Types for the random operators of checkpointed parts, which torch's partitioner adds without.

A part that draws random numbers is computed again in the backward, with the numbers of the forward:
`run_and_save_rng_state` gives the generator's state too, and `run_with_rng_state` starts from it.
Each runs in torch, between programs.

    run_and_save_rng_state(native_dropout, x, 0.5, True)
    -->  (u8[5056], (f32[4,8], bool[4,8]))
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

aten = torch.ops.aten

_SAVE = torch.ops.higher_order.run_and_save_rng_state
_RESTORE = torch.ops.higher_order.run_with_rng_state

_ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
"""Tagged as random for its dropout, of which the CPU has none: it is called as it is."""


def type_rng_states(gm: GraphModule) -> None:
    """Gives the random operators of `gm` types, and their states the size that they have."""
    for node in gm.graph.find_nodes(op="call_function", target=_SAVE):
        _type_saving(node)
    for node in gm.graph.find_nodes(op="call_function", target=_RESTORE):
        _type_restoring(node)
    gm.recompile()


def _type_saving(node: Node) -> None:
    op, *args = node.args
    types = _state(), _results(op, args, node.kwargs)
    node.meta["val"] = types
    for item in list(node.users):
        index: Any = item.args[1]
        item.meta["val"] = types[index]
        if op is _ATTENTION and index == 1:
            item.replace_all_uses_with(_call(node, args, types[1]))
    if op is _ATTENTION:
        _save_nothing(node, types[0])


def _type_restoring(node: Node) -> None:
    state, op, *args = node.args
    assert isinstance(state, Node)
    state.meta["val"] = _state()
    node.meta["val"] = _results(op, args, node.kwargs)
    if op is _ATTENTION:
        node.replace_all_uses_with(_call(node, args, node.meta["val"]))
        node.graph.erase_node(node)


def _call(node: Node, args: Sequence[Any], types: Any) -> Node:
    """Attention itself, in the place of `node`."""
    with node.graph.inserting_before(node):
        call = node.graph.call_function(_ATTENTION, tuple(args), dict(node.kwargs))
    call.meta = {**node.meta, "val": types}
    return call


def _save_nothing(node: Node, type_: torch.Tensor) -> None:
    """The backward, which calls attention as it is too, does not read the state."""
    with node.graph.inserting_before(node):
        state = node.graph.call_function(
            aten.full.default, (list(type_.shape), 0), {"dtype": torch.uint8}
        )
    state.meta["val"] = type_
    for item in list(node.users):
        assert item.target is operator.getitem
        item.replace_all_uses_with(state)
        node.graph.erase_node(item)
    node.graph.erase_node(node)


def _state() -> torch.Tensor:
    """A fake state of the generator of CPUs, which always has the same size."""
    size = torch.default_generator.get_state().numel()
    with _fake_mode():
        return torch.empty(size, dtype=torch.uint8)


def _results(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What `op` gives for the types of its arguments."""

    def type_of(node: Node) -> Any:
        return node.meta["val"]

    with _fake_mode(), torch.no_grad():
        return op(*map_arg(tuple(args), type_of), **map_arg(kwargs, type_of))


def _fake_mode() -> Any:
    """The mode of torch's tracing, which is under way."""
    mode = detect_fake_mode()
    assert mode is not None
    return mode
