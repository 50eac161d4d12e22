"""Single operations and short chains, from one whose work is nothing to some that fill a core."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cases.case import Case, Function, Make


def one_op() -> Case:
    return Case(Function(lambda x: x + 1.0), (torch.randn(8),))


def pointwise_chain() -> Case:
    def chain(x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh(x * y + 1.0).mul(torch.sigmoid(x)) - y.abs().sqrt()

    return Case(Function(chain), (torch.randn(512, 1024), torch.randn(512, 1024)))


def softmax() -> Case:
    return Case(Function(lambda x: F.softmax(x * 0.125, dim=-1)), (torch.randn(512, 1000),))


def layer_norm() -> Case:
    return Case(nn.LayerNorm(768), (torch.randn(512, 768),))


def mlp() -> Case:
    layers = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
    return Case(layers, (torch.randn(128, 256),))


def many_parameters() -> Case:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.terms = nn.ParameterList([torch.randn(8, 8) for _ in range(300)])

        def forward(self, x: Tensor) -> Tensor:
            for term in self.terms:
                x = x + term
            return x

    return Case(Sum(), (torch.randn(8, 8),))


CASES: dict[str, Make] = {
    f.__name__: f for f in (one_op, pointwise_chain, softmax, layer_norm, mlp, many_parameters)
}
