"""The verdict on one program: its differences from eager that are not torch.compile's own."""

import linecache
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from test.fuzz.compare import Difference, compare
from test.fuzz.noise import noisy_modes
from test.fuzz.observe import Function, Sight, play
from test.fuzz.program import Program
from test.fuzz.spell import DYNAMIC, spell_definitions
from test.fuzz.writes import UNSETTLED_SIGNS, UNSETTLED_STRIDES, ZERO_GRADIENTS

TRUSTED = "aot_eager"
"""The backend that changes nothing: what it shows, no backend could show otherwise."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Compiles with `backend` and `options`; differences that match `ignore` do not count."""

    backend: str = "tpu_tile"
    options: Mapping[str, object] = field(default_factory=dict)
    ignore: str | None = None

    def __call__(self, program: Program) -> tuple[Difference, ...]:
        """Empty where the compiled program is right."""
        names = load(program)
        want = _play(program, names, names["f"], nullcontext())
        noisy = [_play(program, names, names["f"], mode) for mode in noisy_modes()]

        def differences(backend: str, options: Mapping[str, object]) -> list[Difference]:
            got = self._play_compiled(program, names, backend, options)
            found = compare(want, got, noisy)
            return [d for d in found if not self._is_ignored(d) and _is_settled(d, program)]

        found = differences(self.backend, self.options)
        if not found:
            return ()
        torchs = {(d.kind, d.where) for d in differences(TRUSTED, {})}
        return tuple(d for d in found if (d.kind, d.where) not in torchs)

    def _is_ignored(self, difference: Difference) -> bool:
        return self.ignore is not None and re.search(self.ignore, str(difference)) is not None

    def _play_compiled(
        self,
        program: Program,
        names: Mapping[str, Any],
        backend: str,
        options: Mapping[str, object],
    ) -> list[list[Sight]]:
        torch._dynamo.reset()
        compiled = torch.compile(
            names["f"], backend=backend, dynamic=DYNAMIC[program.dynamic], options=options or None
        )
        return _play(program, names, compiled, nullcontext())


def _is_settled(difference: Difference, program: Program) -> bool:
    calls = " ".join(s.template for s in program.statements)
    return not any(call in calls for call in _unsettled(difference))


def _unsettled(difference: Difference) -> tuple[str, ...]:
    """The calls that excuse a difference of its kind."""
    if difference.kind == "strides":
        return UNSETTLED_STRIDES
    if difference.kind != "sign of zero":
        return ()
    return UNSETTLED_SIGNS + ZERO_GRADIENTS * ("gradient" in difference.where)


def load(program: Program) -> dict[str, Any]:
    """The names that the text of `program` defines; tracebacks can show its lines."""
    text, file = spell_definitions(program), "<fuzz>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "fuzz"}
    exec(compile(text, file, "exec"), names)
    return names


def _play(
    program: Program, names: Mapping[str, Any], fn: Function, under: Any
) -> list[list[Sight]]:
    marked = program.dynamic == "marked"
    return play(fn, names["inputs"], program.calls, program.training, under, marked)
