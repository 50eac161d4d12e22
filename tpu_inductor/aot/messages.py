"""What a compile worker is asked and what it answers: frozen values that cross a process border.

Nothing here imports JAX or torch, because both sides need it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tpu_inductor.aot.price import Price
    from tpu_inductor.graph.core import Var

Argument: TypeAlias = tuple[tuple[int, ...], str]
"""Shape and the name of a NumPy dtype, `((8, 128), "bfloat16")`."""

DUMP = "dump"
"""Where libtpu dumps in the folder of a worker."""


def argument_of(var: "Var") -> Argument:
    """The array that a program takes for `var`."""
    return var.type.dims, var.type.dtype.value.rstrip("_")


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One function of a printed module, to be compiled for one target.

    `entry` is `program` or the launcher of one kernel. With `is_priced` its time on the chip is
    estimated; with `is_warm` a second time, as if XLA had prefetched its operands before.
    `scoped_vmem_kib` is what each fusion of XLA's may use of VMEM; 0 leaves that to XLA. Printed
    programs have 64-bit types; without `has_64_bit` JAX's defaults hold, down to loop counters.
    """

    name: str
    source: str
    arguments: tuple[Argument, ...]
    target: str
    entry: str = "program"
    is_priced: bool = True
    is_warm: bool = False
    scoped_vmem_kib: int = 0
    has_64_bit: bool = True


@dataclass(frozen=True, slots=True)
class DevicelessResult:
    """What the compiler says of one program: `error` is empty if it compiled. Sizes in bytes.

    `error_line` is the line of the printed module that the error belongs to, and `vmem_bytes` the
    most scoped VMEM that one of its kernels uses; both are 0 where the compiler does not tell.
    """

    name: str
    target: str
    error: str
    argument_bytes: int = 0
    output_bytes: int = 0
    temporary_bytes: int = 0
    code_bytes: int = 0
    vmem_bytes: int = 0
    error_line: int = 0

    @property
    def ok(self) -> bool:
        return not self.error


@dataclass(frozen=True, slots=True)
class CompileReply:
    """The answer to one request. `price` is None where none was asked for, or nothing compiled.

    `warm` is the second price of `is_warm`. `unpriced` says why something that compiled could not
    be priced. `seconds` is the worker's time.
    """

    result: DevicelessResult
    price: "Price | None"
    seconds: float
    unpriced: str = ""
    warm: "Price | None" = None
