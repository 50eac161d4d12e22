"""Where an FX node comes from: the user's file and line, and the ATen operator."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from tpu_inductor.graph.origin import Origin

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n(?P<code>[^\n]*)')


def op_name(target: object) -> str:
    """`aten.gelu`, `aten.sum.dim_IntList`: the packet, and its overload unless the default."""
    if isinstance(target, OpOverload):
        return str(target).removesuffix(".default")
    return getattr(target, "__name__", str(target))


def names_of(target: object) -> tuple[str, ...]:
    """What a user may call an operator: `aten.sort`, and with its overload `aten.sort.stable`."""
    if not isinstance(target, OpOverload):
        return (op_name(target),)
    return str(target.overloadpacket), str(target), op_name(target)


def check_op_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name of `eager_ops` that no operator of torch has."""
    for name in names:
        found: Any = torch.ops
        for word in name.split("."):
            found = getattr(found, word, None)
        if not isinstance(found, OpOverload | OpOverloadPacket):
            raise ValueError(
                f"eager_ops names {name!r}, which is no operator of torch: write it as "
                "`explain` does, such as aten.sort, or aten.sort.stable for one overload"
            )


def hint_name(target: object) -> str:
    """The word that results of `target` are named after: `softmax` of `aten._softmax`."""
    if isinstance(target, OpOverload):
        return target._schema.name.split("::")[-1].strip("_")
    return op_name(target).strip("_")


def origin_of(node: Node) -> Origin:
    """The origin of `node`: its operator and the innermost frame of its stack trace."""
    op = op_name(node.target) if node.op == "call_function" else node.op
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return Origin(op, node.name)
    last = frames[-1]
    return Origin(op, node.name, last["file"], int(last["line"]), last["code"].strip())
