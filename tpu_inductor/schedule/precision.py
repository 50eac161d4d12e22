"""How exactly the MXU multiplies: it takes bf16, so that a float32 product is several of them."""

from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.types import DType


def passes(eqn: Eqn) -> int:
    """bf16 passes of the MXU for one product."""
    if eqn.inputs[0].type.dtype is not DType.F32:
        return 1
    return 1 if cast(A.Dot, eqn.attrs).precision == "default" else 6
