"""One thing to measure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch


@dataclass(frozen=True, slots=True)
class Case:
    """A module in eval mode and the tensors that it is called with."""

    module: torch.nn.Module
    args: tuple[torch.Tensor, ...]


Make: TypeAlias = Callable[[], Case]
"""Builds a case anew, always with the same random numbers."""


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


class Output(torch.nn.Module):
    """One field of what a model from transformers returns."""

    def __init__(self, model: torch.nn.Module, field: str) -> None:
        super().__init__()
        self.model = model
        self.field = field

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.model(*args)[self.field]
