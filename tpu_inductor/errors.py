"""The failures of the compiler, and the roads they take.

`Reject` is a value: something has no lowering or no kernel; it is listed and runs elsewhere.
`Unsupported` is raised when the user asked for the impossible (bad option, strict mode).
`InvalidIR` is raised when an invariant of ours is broken; nothing catches it. Where one call is
lowered, or one region scheduled or printed, `blame` gives it the user's line and a way around.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reject:
    """Why something cannot be done here. `reason` is a sentence without a full stop."""

    reason: str


class TpuInductorError(Exception):
    """What every error raised by this package derives from."""


class Unsupported(TpuInductorError):
    """The user asked for something this backend cannot do (strict mode, unknown device)."""


class InvalidIR(TpuInductorError):
    """An invariant of the compiler is broken: a bug in tpu_inductor, please report it."""


class LaunchError(TpuInductorError):
    """A compiled graph was called with arguments that it was not compiled for."""


class ReplayError(TpuInductorError):
    """A folder holds nothing that could be replayed."""


class DumpError(TpuInductorError):
    """libtpu left no listing of a compiled program that could be priced."""


BUGS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What Python code with a bug raises. Interrupts and a lack of memory are not among them."""


PREFER_XLA = 'Until it is mended, make no kernels: options={"prefer": "xla"}'
"""The way around a bug in a kernel."""


def leave_in_torch(op: str) -> str:
    """The way around a bug in what becomes of one operator."""
    return f'Until it is mended, leave the operator in torch: options={{"eager_ops": ["{op}"]}}'


@contextmanager
def blame(what: str, place: str, way_around: str) -> Generator[None]:
    """Makes every bug inside an InvalidIR that says what failed, where, and how to avoid it.

    `what` is what was being done, `place` the user's line, `way_around` a sentence.
    """
    try:
        yield
    except (InvalidIR, *BUGS) as error:
        raise InvalidIR(bug_text(what, place, way_around, error)) from error


def bug_text(what: str, place: str, way_around: str, error: BaseException) -> str:
    """The message of an InvalidIR for an error that nobody expected."""
    said = str(error) if isinstance(error, InvalidIR) else f"{type(error).__name__}: {error}"
    where = f" - {place}" if place else ""
    return f"{what}: {said}{where}; a bug in tpu_inductor, please report it. {way_around}"
