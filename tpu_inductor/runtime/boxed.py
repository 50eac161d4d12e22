"""AOTAutograd's boxed convention: a callable takes one list of arguments, and may empty it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule

from tpu_inductor.front.meta import results_on_meta

Boxed: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph as AOTAutograd calls it."""


def as_boxed(run: Boxed) -> Boxed:
    """`run` as a function that carries torch's mark of the boxed convention.

    A class attribute would not do: Dynamo wraps backward graphs and copies what is in `__dict__`.
    """

    def call(args: list[Any]) -> Sequence[Any]:
        return run(args)

    call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return call


class EagerGraph:
    """An FX graph that runs in torch, node by node."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        if any(isinstance(arg, torch.Tensor) and arg.is_meta for arg in args):
            return results_on_meta(self.gm, args)
        interpreter = torch.fx.Interpreter(self.gm)
        with torch.no_grad():
            return interpreter.boxed_run(args)
