"""Scalar values of the TensorCore, and what its operations mean where Python's differ.

Integers are kept as signed 32-bit values, addresses as larger ones, predicates as bool. What cannot
be known here (the contents of memory) is UNKNOWN, which absorbs every operation.
"""

from typing import TypeAlias


class Unknown:
    """A scalar that cannot be known here. It absorbs every operation, and is no truth value."""

    def _absorb(self, _other: object = None) -> "Unknown":
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _absorb
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _absorb
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _absorb
    __neg__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _absorb
    # Comparisons of machine values give machine values, not Python's bool.
    __eq__ = __ne__ = _absorb  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an unknown scalar is neither true nor false")


UNKNOWN = Unknown()
Scalar: TypeAlias = int | Unknown

_ADDRESS = 1 << 40


def wrap(value: Scalar) -> Scalar:
    """`value` as a signed 32-bit integer; an address stays."""
    if isinstance(value, Unknown) or -0x80000000 <= value <= 0x7FFFFFFF or value >= _ADDRESS:
        return value
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def unsigned(value: Scalar) -> Scalar:
    """`value` as an unsigned 32-bit integer."""
    return value if isinstance(value, Unknown) or value >= 0 else value & 0xFFFFFFFF


def select(condition: Scalar, on_true: Scalar, on_false: Scalar) -> Scalar:
    if condition is UNKNOWN:
        return UNKNOWN
    return on_true if condition else on_false


def either(a: Scalar, b: Scalar) -> Scalar:
    """Whether `a` or `b` holds: known if one is known to hold."""
    if (a is not UNKNOWN and a) or (b is not UNKNOWN and b):
        return True
    return UNKNOWN if a is UNKNOWN or b is UNKNOWN else False


def negate(a: Scalar) -> Scalar:
    return UNKNOWN if a is UNKNOWN else not a


SCALAR_NAMES: dict[str, object] = {
    "UNKNOWN": UNKNOWN,
    "wrap": wrap,
    "unsigned": unsigned,
    "select": select,
    "either": either,
    "negate": negate,
}
"""What `statements` may call in the Python it prints."""
