"""Programs of some 2,000 equations on small tensors: what compiling costs, not running."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Program = tuple[Callable[..., Any], tuple[Any, ...]]

EQUATIONS = 2000

X = (64, 256)


def chain() -> Program:
    """One value after the other."""

    def run(x: torch.Tensor) -> torch.Tensor:
        for i in range(EQUATIONS):
            x = torch.sin(x) if i % 2 else torch.cos(x)
        return x

    return run, (torch.zeros(X),)


def wide() -> Program:
    """Many values of one tensor, which meet in a sum."""

    def run(x: torch.Tensor) -> torch.Tensor:
        parts = [torch.sin(x * float(i)) for i in range(2, EQUATIONS // 3)]
        return torch.stack([sum(parts)])

    return run, (torch.zeros(X),)


def apart() -> Program:
    """Many tensors that have nothing to do with each other, as in an optimiser."""

    def run(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [torch.tanh(x * 0.9 + 1.0) for x in xs]

    return run, tuple(torch.zeros(X) for _ in range(EQUATIONS // 3))


class Layer(torch.nn.Module):
    """RMSNorm, rotary attention, RMSNorm and a gated linear unit, with residuals."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))
        self.square = torch.nn.ModuleList(linear(width, width) for _ in range(4))
        self.gate, self.up = linear(width, 4 * width), linear(width, 4 * width)
        self.down = linear(4 * width, width)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.norms[0](x)
        shape = (*x.shape[:2], self.heads, -1)
        q, k, v = (f(h).view(shape).transpose(1, 2) for f in list(self.square)[:3])
        q, k = (
            t * cos + torch.cat((-t.chunk(2, -1)[1], t.chunk(2, -1)[0]), -1) * sin for t in (q, k)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.square[3](mixed.transpose(1, 2).flatten(2))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def linear(n: int, m: int) -> torch.nn.Module:
    return torch.nn.Linear(n, m, bias=False)


class Transformer(torch.nn.Module):
    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


def transformer() -> Program:
    """32 layers."""
    model = Transformer(32, 256, 4).to(torch.bfloat16)
    x, turn = torch.zeros(2, 128, 256), torch.zeros(128, 64)
    return model, tuple(t.bfloat16() for t in (x, turn, turn))


def gru() -> Program:
    """A cell unrolled over 64 steps."""
    cell = torch.nn.GRUCell(64, 64)

    def run(xs: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(8, 64)
        for x in xs:
            h = cell(x, h)
        return h

    return run, (torch.zeros(64, 8, 64),)


LARGE: dict[str, Callable[[], Program]] = {
    f.__name__: f for f in (chain, wide, apart, transformer, gru)
}
"""By name."""
