"""Copies and changes of element type. A copy is the value itself: graph values never change."""

from typing import Any

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


@lowering(
    aten.alias.default,
    aten.alias_copy.default,
    aten.detach.default,
    aten.detach_copy.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.conj_physical.default,
    aten._conj_physical.default,
    aten._conj.default,
    aten.real.default,
)
def alias(b: Builder, x: Any) -> Value:
    return x


@lowering(aten.clone.default, aten.contiguous.default)
def clone(b: Builder, x: Any, memory_format: Any = None) -> Value:
    return x


@lowering(aten._to_copy.default)
def to_copy(
    b: Builder,
    x: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Value:
    return b.convert(x, b.out[0].dtype)


@lowering(torch.ops.prims.convert_element_type.default)
def convert_element_type(b: Builder, a: Any, dtype: torch.dtype) -> Value:
    return b.convert(a, b.out[0].dtype)


@lowering(aten.copy.default)
def copy(b: Builder, x: Any, src: Any, non_blocking: bool = False) -> Value:
    return b.broadcast_to(b.convert(src, b.out[0].dtype), b.out[0].shape)
