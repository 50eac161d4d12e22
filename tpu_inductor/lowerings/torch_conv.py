"""Convolutions that torch's own library runs, between two programs, where that is faster.

y = conv(x, w; channels_last, method=torch)  -->  y = eager(x, w; aten.convolution because ...)
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.conv_methods import TORCH_METHODS
from tpu_inductor.graph.core import Eqn, Graph
from tpu_inductor.graph.prims import EAGER

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class TorchConvolution:
    """`aten.convolution` of (n, *spatial, in) by (out, in/groups, *window), channels last.

    Torch sees a tensor in its own channels-last format. One that is smaller than the weights is
    copied to channels first, for which torch packs the weights as they lie.
    """

    attrs: A.Conv

    def __call__(self, x: Tensor, w: Tensor) -> Tensor:
        """The result (n, *spatial, out)."""
        a = self.attrs
        turned = x.movedim(-1, 1)
        if x.numel() < w.numel():
            turned = turned.contiguous()
        padding, none = [low for low, _ in a.padding], [0] * len(a.padding)
        geometry = (a.strides, padding, a.rhs_dilation, False, none, a.groups)
        out = aten.convolution.default(turned, w, None, *geometry)
        return out.movedim(1, -1)

    def __str__(self) -> str:
        return "aten.convolution"


@dataclass(frozen=True, slots=True)
class TorchTransposedConvolution:
    """A convolution of spread elements as torch's transposed one, whose weights are not turned."""

    attrs: A.Conv

    def __call__(self, x: Tensor, w: Tensor) -> Tensor:
        """The result (n, *spatial, out) of (n, *spatial, in) by (out, in/groups, *window)."""
        a = self.attrs
        spatial = range(2, w.dim())
        split = w.unflatten(0, (a.groups, -1)).transpose(1, 2).flatten(0, 1).flip(*spatial)
        reaches = [d * (w.shape[i] - 1) for d, i in zip(a.rhs_dilation, spatial, strict=True)]
        padding = [reach - low for reach, (low, _) in zip(reaches, a.padding, strict=True)]
        more = [high - low for low, high in a.padding]
        geometry = (a.lhs_dilation, padding, a.rhs_dilation, True, more, a.groups)
        return aten.convolution.default(x.movedim(-1, 1), split, None, *geometry).movedim(1, -1)

    def __str__(self) -> str:
        return "aten.convolution"


@dataclass(frozen=True, slots=True)
class TorchWeightGradient:
    """A convolution with a result of `places` as torch's gradient by weights of that window.

    Its batch are the channels of a group, its channels the groups' images, its weights the gradient
    of what the differentiated convolution returned.
    """

    attrs: A.Conv
    places: tuple[int, ...]

    def __call__(self, x: Tensor, w: Tensor) -> Tensor:
        """The result (channels/groups, *places, out)."""
        a, groups = self.attrs, self.attrs.groups
        images = x.unflatten(-1, (groups, -1)).movedim((-1, -2, 0), (0, 1, 2)).flatten(1, 2)
        grad = w.transpose(0, 1)
        weights = x.new_empty(()).expand(w.shape[0], x.shape[0], *self.places)
        padding, none = [low for low, _ in a.padding], [0] * len(a.padding)
        geometry = (a.rhs_dilation, padding, a.strides, False, none, groups)
        mask = [False, True, False]
        found = aten.convolution_backward.default(grad, images, weights, None, *geometry, mask)[1]
        return found.movedim(0, -1)

    def __str__(self) -> str:
        return "aten.convolution_backward"


def leave_to_torch(graph: Graph) -> Graph:
    """The same function, with the convolutions whose method is torch's as eager equations."""
    return replace(graph, eqns=tuple(_as_call(eqn) for eqn in graph.eqns))


def _as_call(eqn: Eqn) -> Eqn:
    if not isinstance(eqn.attrs, A.Conv) or eqn.attrs.method not in TORCH_METHODS:
        return eqn
    holes = (A.Hole(0), A.Hole(1))
    call = A.EagerCall(_function(eqn, eqn.attrs), holes, (), eqn.attrs.why, False, True)
    return replace(eqn, prim=EAGER, attrs=call)


def _function(eqn: Eqn, attrs: A.Conv) -> object:
    match attrs.method:
        case "torch_transposed":
            return TorchTransposedConvolution(attrs)
        case "torch_weight_gradient":
            return TorchWeightGradient(attrs, eqn.out.type.dims[1:-1])
        case _:
            return TorchConvolution(attrs)
