"""What the launcher needs of a device: conversions both ways, and a compiler."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from torch import Tensor

from tpu_inductor.codegen.program import Program
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.options import Interpret

Array: TypeAlias = Any
"""What a launch takes and returns: a jax array, or something that dispatch accepts as one."""

Launch: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]
"""Runs a program once. When it returns, the arguments have been read and the results exist."""


class Adapter(Protocol):
    """One kind of device. Implementations are frozen: they hold no state between calls."""

    @property
    def devices(self) -> str:
        """The tensors it takes, for messages."""
        ...

    def process(self) -> int:
        """The process in which this adapter works. Raises Unsupported in a fork of that one."""
        ...

    def accepts(self, tensor: Tensor) -> bool:
        """Whether `tensor` lives where this adapter can read it."""
        ...

    def stage(self, tensor: Tensor, dtype: DType) -> Array:
        """`tensor` for one launch; cheap, may alias it."""
        ...

    def hold(self, tensor: Tensor, dtype: DType) -> Array | None:
        """`tensor` for many launches, sharing its memory so that writes to it are seen.

        None where that cannot be done. The tensor object itself is not kept alive.
        """
        ...

    def number(self, value: float, dtype: DType) -> Array:
        """A Python number as a 0-dimensional value."""
        ...

    def to_torch(self, array: Array) -> Tensor:
        """A launch's result as a tensor that owns its memory; its storage may have a fixed size."""
        ...

    def copier(self, type_: TensorType) -> Callable[[Array], Tensor]:
        """Puts results of `type_` into memory of torch's own, whose storage can be resized."""
        ...

    def compile(self, program: Program, interpret: Interpret) -> Launch:
        """`program`, ready to launch; compilation itself may wait for the first launch."""
        ...
