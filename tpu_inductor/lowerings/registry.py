"""The table from ATen operators to lowerings, and the decorator that fills it.

A lowering is `def op(b: Builder, x, *, alpha=1) -> Value | tuple | Reject`. Tensors arrive as graph
values, numbers as Python numbers or (symbolic) 0-dimensional values, dtypes as torch.dtype.
Parameter names and defaults are checked against the operator's schema at import.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from torch._ops import OpOverload

from tpu_inductor.errors import InvalidIR

Lowering: TypeAlias = Callable[..., Any]

LOWERINGS: dict[OpOverload, Lowering] = {}
"""Every lowering by operator. Filled at import, never afterwards."""


def lowering(*ops: OpOverload) -> Callable[[Lowering], Lowering]:
    """Registers the decorated function for `ops`. A second lowering of one operator is an error."""

    def register(fn: Lowering) -> Lowering:
        for op in ops:
            if op in LOWERINGS:
                raise InvalidIR(f"two lowerings of {op}: {LOWERINGS[op].__name__}, {fn.__name__}")
            _check_schema(op, fn)
            LOWERINGS[op] = fn
        return fn

    return register


def _check_schema(op: OpOverload, fn: Lowering) -> None:
    params = list(inspect.signature(fn).parameters.values())[1:]
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in params):
        return
    schema = [a.name for a in op._schema.arguments]
    for wanted, param in zip(schema, params, strict=False):
        if param.name not in (wanted, f"{wanted}_") and (wanted, param.name) != ("self", "x"):
            raise InvalidIR(f"lowering of {op} calls parameter {wanted!r} {param.name!r}")
    if len(schema) != len(params):
        raise InvalidIR(f"lowering of {op} takes {len(params)} arguments, the schema has {schema}")
