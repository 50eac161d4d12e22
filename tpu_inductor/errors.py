"""The three failures of the compiler, and the three roads they take.

`Reject` is a value: something has no lowering or no kernel; it is listed and runs elsewhere.
`Unsupported` is raised when the user asked for the impossible (bad option, strict mode).
`InvalidIR` is raised when an invariant of ours is broken; nothing catches it.
"""

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


class DumpError(TpuInductorError):
    """libtpu left no listing of a compiled program that could be priced."""
