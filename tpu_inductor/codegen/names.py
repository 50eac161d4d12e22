"""Python identifiers for graph values."""

import builtins
import keyword
from dataclasses import dataclass

from tpu_inductor.graph.core import Var

RESERVED = frozenset((*keyword.kwlist, *dir(builtins), "jax", "jnp", "lax", "np", "pl", "pltpu"))
"""Names that emitted code may not bind."""


@dataclass(frozen=True, slots=True)
class Names:
    """Maps variables to identifiers: `mul` stays, a reserved `not` becomes `not_`.

    Distinct names stay distinct: `not_` itself becomes `not__`.
    """

    reserved: frozenset[str] = RESERVED

    def of(self, var: Var) -> str:
        """The identifier of `var`; the same for every call."""
        return self.identifier(var.name)

    def identifier(self, name: str) -> str:
        """`name` as an identifier that shadows nothing reserved."""
        text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else _escape(c) for c in name)
        if not text or text[0].isdigit():
            text = f"v{text}"
        return f"{text}_" if text.rstrip("_") in self.reserved else text


def _escape(char: str) -> str:
    return f"_x{ord(char):x}_"
