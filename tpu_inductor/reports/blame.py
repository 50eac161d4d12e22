"""From an error of the compiler to the lines of the user that caused it.

    infer-vector-layout: unsupported shape cast
      in `reshape = jnp.reshape(mul, (1024, 1))`, line 15 of the printed program
      which is aten.view at model.py:12 `y = (x * 2).view(1024, 1)`

Mosaic's errors carry the line of the printed module; its comment names the ATen operator. Where
an error has no line, every operator of the kernel is a suspect.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpu_inductor.aot.messages import DevicelessResult
from tpu_inductor.codegen.program import Program
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.origin import Origin
from tpu_inductor.regions.region import Region
from tpu_inductor.reports.explain_region import place_of

_BOILERPLATE = re.compile(
    r"^(INTERNAL|UNIMPLEMENTED|INVALID_ARGUMENT): |Mosaic failed to compile TPU kernel: |"
    r"\s*Please (report a bug at|file an issue at|file a bug at):? \S+|"
    r"^Pallas encountered an internal verification error\. Error details: ",
    re.MULTILINE,
)
_LAUNCH = re.compile(r"jit\(program\)/jit\((\w+)\)")
_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of the compiler. `suspects` is one operator, or all that may be meant, each once.

    `code` is the printed statement, and `line` its number in the program, if the error has one.
    """

    message: str
    line: int
    code: str
    suspects: tuple[Origin, ...]

    def __str__(self) -> str:
        lines = [self.message]
        if self.code:
            lines.append(f"  in `{self.code}`, line {self.line} of the printed program")
        which = "which is" if len(self.suspects) == 1 else "which is one of"
        named = [f"{o.op} at {place_of(o)}" for o in self.suspects]
        lines += [f"  {which} {named[0]}"] if len(named) == 1 else []
        lines += [f"  {which}", *(f"    {name}" for name in named)] if len(named) > 1 else []
        return "\n".join(lines)


def find_problem(
    result: DevicelessResult, program: Program, regions: Sequence[Region]
) -> Problem | None:
    """What is wrong with a program, or with the one kernel of `regions`; None if it compiled."""
    if result.ok:
        return None
    statement = _statement(program.source, result.error_line)
    code, _, comment = (part.strip() for part in statement.partition("  # "))
    eqns = [e for region in _named(result.error, program, regions) for e in region.eqns]
    suspects = _commented(comment, eqns) or _origins(eqns)
    return Problem(_tidy(result.error), result.error_line, code, suspects)


def _statement(source: str, line: int) -> str:
    return source.splitlines()[line - 1] if line else ""


def _named(error: str, program: Program, regions: Sequence[Region]) -> Sequence[Region]:
    """The regions whose kernel the error names, or all."""
    functions = set(_LAUNCH.findall(error))
    named = {call.region for call in program.calls if call.function in functions}
    return [r for r in regions if r.name in named] or regions


def _commented(comment: str, eqns: Sequence[Eqn]) -> tuple[Origin, ...]:
    """The origins that the comment of a printed statement means."""
    operators, _, place = comment.partition(" at ")
    meant = _origins(e for e in eqns if e.origin.op in operators.split(", "))
    there = [o for o in meant if place and f"/{o.file}:{o.line}".endswith(f"/{place}")]
    return tuple(there) or meant


def _origins(eqns: Iterable[Eqn]) -> tuple[Origin, ...]:
    """Origins in the user's program, one for each operator and line."""
    found = {(e.origin.op, e.origin.place): e.origin for e in eqns if e.origin.node}
    return tuple(found.values())


def _tidy(error: str) -> str:
    """The error without what it says to developers of JAX, and of bearable length."""
    lines = [line.rstrip() for line in _BOILERPLATE.sub("", error).splitlines() if line.strip()]
    text = "\n".join(lines)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
