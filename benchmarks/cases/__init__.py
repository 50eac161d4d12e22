"""What is measured: CASES maps a name to a function that builds a module and its arguments."""

from cases import models, ops
from cases.case import Case, Make

CASES: dict[str, Make] = {**ops.CASES, **models.CASES}

__all__ = ["CASES", "Case"]
