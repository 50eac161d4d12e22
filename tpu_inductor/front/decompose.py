"""Which ATen operators AOTAutograd takes apart before the graph is imported.

Kept whole: what has a lowering of its own, and every random operator, which runs in torch so that
a seed gives torch's own numbers.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OperatorBase, OpOverload

from tpu_inductor.lowerings import LOWERINGS

aten = torch.ops.aten

_MORE = (
    aten.expand_copy,
    aten.renorm,
    aten.huber_loss,
    aten.dist,
    aten.grid_sampler_2d,
    aten.adaptive_max_pool2d,
)
"""Packets whose decomposition is in torch's table, though not in its core selection."""


@functools.cache
def decompositions() -> Mapping[OperatorBase, Callable[..., Any]]:
    """The table to trace with, in torch's order. Made once: torch takes 0.1 s to list its own."""
    table = core_aten_decompositions()
    wanted = {op: fn for op, fn in table.items() if _is_taken_apart(op)}
    for packet in _MORE:
        for op in (getattr(packet, name) for name in packet.overloads()):
            if op in decomposition_table and _is_taken_apart(op):
                wanted.setdefault(op, decomposition_table[op])
    return wanted


def _is_taken_apart(op: OperatorBase) -> bool:
    if not isinstance(op, OpOverload):
        return True
    return op not in LOWERINGS and torch.Tag.nondeterministic_seeded not in op.tags
