"""Where an equation comes from in the user's program."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """The ATen operator and FX node behind an equation, and the user's line if known."""

    op: str
    node: str
    file: str = ""
    line: int = 0
    code: str = ""

    @property
    def place(self) -> str:
        """`model.py:88 `y = x.sort()`` as messages show it."""
        if not self.file:
            return f"FX node {self.node}"
        where = f"{self.file}:{self.line}"
        return f"{where} `{self.code}`" if self.code else where

    def __str__(self) -> str:
        return self.op


COMPILER = Origin(op="tpu_inductor", node="")
"""The origin of equations that the compiler itself adds."""
