"""Assertions about data, which torch also adds by itself (one_hot): they hold on every target."""

import torch

from tpu_inductor.graph.attrs import Check
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.prims import CHECK
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.checks import ALL_BUT_ONE
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


@lowering(aten._assert_async.msg)
def assert_with_message(b: Builder, x: Value, assert_msg: str) -> None:
    """Raises with the message where the one element of `x` is 0."""
    truth = b.tensor(b.convert(b.convert(x, DType.BOOL), DType.I64))
    words = assert_msg.replace("{", "{{").replace("}", "}}")
    b.one(CHECK, truth, attrs=Check(1, ALL_BUT_ONE, "RuntimeError", words))


@lowering(aten._assert_async.default)
def assert_true(b: Builder, x: Value) -> None:
    assert_with_message(b, x, "Expected Tensor with single nonzero value, but got zero")
