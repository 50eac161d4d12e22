"""Convolutions that torch's own library runs, between two programs, where that is faster.

y = conv(x, w; channels_last, method=torch)  -->  y = eager(x, w; aten.convolution because ...)
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Graph
from tpu_inductor.graph.prims import EAGER


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
        out = torch.ops.aten.convolution.default(turned, w, None, *geometry)
        return out.movedim(1, -1)

    def __str__(self) -> str:
        return "aten.convolution"


def leave_to_torch(graph: Graph) -> Graph:
    """The same function, with the convolutions whose method is "torch" as eager equations."""
    return replace(graph, eqns=tuple(_as_call(eqn) for eqn in graph.eqns))


def _as_call(eqn: Eqn) -> Eqn:
    if not isinstance(eqn.attrs, A.Conv) or eqn.attrs.method != "torch":
        return eqn
    holes = (A.Hole(0), A.Hole(1))
    call = A.EagerCall(TorchConvolution(eqn.attrs), holes, (), eqn.attrs.why, False, True)
    return replace(eqn, prim=EAGER, attrs=call)
