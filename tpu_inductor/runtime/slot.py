"""One tensor argument of a compiled graph: what it must look like, and its conversion.

A parameter is the same tensor object call after call: its conversion is held, keyed weakly by the
object, and shares its memory. An activation is another object each time: it is viewed for one
launch. A slot holds what it sees in its first call, and afterwards what it sees twice in a row.
"""

import weakref
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tpu_inductor.errors import LaunchError, Unsupported
from tpu_inductor.graph.signature import TensorInput
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.runtime.adapters.protocol import Adapter, Array


@dataclass(frozen=True, slots=True)
class _Held:
    """The conversion of the tensor behind `ref`, valid while it lies at `pointer`.

    `array` is None for a tensor that cannot be held and is converted for each launch.
    """

    ref: "weakref.ref[Tensor]"
    pointer: int
    strides: tuple[int, ...]
    array: Array | None


class Slot:
    """Checks and converts argument `index` of a graph."""

    def __init__(self, index: int, given: TensorInput, adapter: Adapter) -> None:
        self.index = index
        self.name = given.var.name
        self.shape = given.shape
        self.dtype = TORCH_DTYPE[given.var.type.dtype]
        self._given = given
        self._adapter = adapter
        self._perm = given.perm if given.perm != tuple(range(len(given.perm))) else None
        self._held: _Held | None = None
        self._seen: weakref.ref[Tensor] | None = None

    def check(self, tensor: Any) -> None:
        """Raises LaunchError or Unsupported where the argument is not what the graph takes."""
        if not isinstance(tensor, Tensor):
            raise LaunchError(self._complaint(f"got a {type(tensor).__name__}"))
        if tensor.shape != self.shape or tensor.dtype != self.dtype:
            got = f"got a tensor {tuple(tensor.shape)} of {tensor.dtype}"
            raise LaunchError(self._complaint(got))
        if not self._adapter.accepts(tensor):
            raise Unsupported(
                f"argument {self.index} ({self.name}) is on device {tensor.device}, where backend "
                f"tpu_tile cannot run; supported: {self._adapter.devices}. Move it first, or leave "
                "this module out of torch.compile"
            )

    def array(self, tensor: Tensor) -> Array:
        """The dense view `tensor.permute(perm)` as the program takes it, after `check`."""
        held = self._held
        if held is not None:
            # The very object that was converted, and it has not moved: all else still holds.
            if (
                held.ref() is tensor
                and tensor.data_ptr() == held.pointer
                and tensor.shape == self.shape
                and tensor.stride() == held.strides
            ):
                return self._stage(tensor) if held.array is None else held.array
            self._held = None
        self.check(tensor)
        if self._seen is None or self._seen() is tensor:
            return self._hold(tensor)
        self._seen = weakref.ref(tensor)
        return self._stage(tensor)

    def dense(self, tensor: Tensor) -> Tensor:
        """The view that the graph's variable stands for, for steps that run in torch."""
        return tensor if self._perm is None else tensor.permute(self._perm)

    def _stage(self, tensor: Tensor) -> Array:
        return self._adapter.stage(self.dense(tensor), self._given.var.type.dtype)

    def _hold(self, tensor: Tensor) -> Array:
        array = self._adapter.hold(self.dense(tensor), self._given.var.type.dtype)
        slot = weakref.ref(self)

        def forget(ref: "weakref.ref[Tensor]") -> None:
            owner = slot()
            if owner is not None:
                owner.drop(ref)

        ref = weakref.ref(tensor, forget)
        self._held = _Held(ref, tensor.data_ptr(), tensor.stride(), array)
        self._seen = weakref.ref(tensor)
        return self._stage(tensor) if array is None else array

    def drop(self, ref: "weakref.ref[Tensor]") -> None:
        """Lets go of the conversion of a tensor that has died."""
        if self._held is not None and self._held.ref is ref:
            self._held = None

    def _complaint(self, got: str) -> str:
        return (
            f"argument {self.index} ({self.name}): expected a tensor {self.shape} of "
            f"{self.dtype}, {got}; the graph was compiled for the former, compile it anew"
        )
