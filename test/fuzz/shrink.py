"""The smallest program that fails as a given one does.

hypothesis is not used for this, nor to generate: it shrinks the draws behind an example, and here a
draw decides what later draws mean (a statement must fit the values that earlier ones made), so that
little can be deleted; and it runs a test hundreds of times in one process, where each run compiles
for half a second and may take the process with it. Deleting parts of the program itself takes some
dozen runs, and eager says at once which candidates still mean something.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from test.fuzz.data import DATA
from test.fuzz.judge import load
from test.fuzz.program import Input, Program, Statement

Candidates = Iterator[Program]


def shrink(program: Program, fails: Callable[[Program], bool], runs: int) -> Program:
    """Takes the first smaller program that `fails` until there is none, or `runs` are used up."""
    tried = {program}
    while True:
        for candidate in _smaller(program):
            candidate = prune(candidate)
            if candidate in tried:
                continue
            tried.add(candidate)
            if len(tried) > runs:
                return program
            if fails(candidate):
                program = candidate
                break
        else:
            return program


def prune(program: Program) -> Program:
    """Without statements whose values nothing reads; writes stay."""
    statements = list(program.statements)
    read = set(program.results)
    for statement in reversed(program.statements):
        if statement.targets and not read & set(statement.targets):
            statements.remove(statement)
        else:
            read |= set(statement.operands)
    return replace(program, statements=tuple(statements))


def _smaller(program: Program) -> Candidates:
    """Ways to make `program` simpler, those that save most first."""
    yield from _calls(program)
    yield from _results(program)
    yield from _shorter(program)
    yield from _statements(program)
    yield from _inputs(program)
    yield from _sizes(program)


def _calls(program: Program) -> Candidates:
    if len(program.calls) > 1:
        yield from (replace(program, calls=(c,), dynamic="default") for c in program.calls)
    if program.training:
        yield replace(program, training=False)
    if program.dynamic != "default":
        yield replace(program, dynamic="default")


def _results(program: Program) -> Candidates:
    if len(program.results) > 1:
        yield from (replace(program, results=(r,)) for r in program.results)
        for i in range(len(program.results)):
            yield replace(program, results=program.results[:i] + program.results[i + 1 :])


def _shorter(program: Program) -> Candidates:
    """The later half of the statements, on inputs in place of what the earlier half made."""
    if len(program.calls) > 1 or len(program.statements) < 2:
        return
    for cut in (len(program.statements) // 2, 1):
        yield from _cut(program, cut)


def _cut(program: Program, cut: int) -> Candidates:
    early, late = program.statements[:cut], program.statements[cut:]
    needed = {n for s in late for n in s.operands} | set(program.results)
    made = {n for s in early for n in s.targets} & needed
    values = _values(replace(program, statements=early, results=tuple(sorted(made))))
    if values is None:
        return
    inputs = [
        Input(n, tuple(v.shape), str(v.dtype).removeprefix("torch."), "special", i)
        for i, (n, v) in enumerate(zip(sorted(made), values, strict=True))
    ]
    yield replace(program, inputs=(*program.inputs, *inputs), statements=late)


def _values(program: Program) -> tuple[torch.Tensor, ...] | None:
    try:
        names = load(program)
        return names["f"](*names["inputs"](*program.calls[0]))
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None


def _statements(program: Program) -> Candidates:
    """One statement less: its first target becomes one of its operands."""
    for i in reversed(range(len(program.statements))):
        statement = program.statements[i]
        rest = program.statements[:i] + program.statements[i + 1 :]
        if not statement.targets:
            yield replace(program, statements=rest)
        for operand in dict.fromkeys(statement.operands):
            if statement.targets:
                yield _rename(replace(program, statements=rest), statement.targets[0], operand)


def _rename(program: Program, old: str, new: str) -> Program:
    def swap(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if n == old else n for n in names)

    statements = tuple(
        Statement(s.targets, s.template, swap(s.operands)) for s in program.statements
    )
    return replace(program, statements=statements, results=swap(program.results))


def _inputs(program: Program) -> Candidates:
    read = {n for s in program.statements for n in s.operands} | set(program.results)
    bases = {i.base for i in program.inputs}
    for i, given in enumerate(program.inputs):
        before, after = program.inputs[:i], program.inputs[i + 1 :]
        if given.name not in read | bases and len(program.inputs) > 1:
            yield replace(program, inputs=before + after)
            continue
        for simpler in _simpler(given):
            yield replace(program, inputs=(*before, simpler, *after))


def _simpler(given: Input) -> Iterator[Input]:
    if given.base is not None:
        yield replace(given, base=None, view="{0}")
    elif given.view != "{0}":
        yield replace(given, view="{0}")
    for data in DATA[: DATA.index(given.data)]:
        yield replace(given, data=data)
    if given.dtype != "float32":
        yield replace(given, dtype="float32")
    for i, extent in enumerate(given.shape):
        if isinstance(extent, int) and extent > 2:
            yield replace(given, shape=(*given.shape[:i], 2, *given.shape[i + 1 :]))


def _sizes(program: Program) -> Candidates:
    for i, call in enumerate(program.calls):
        for j, size in enumerate(call):
            for smaller in sorted({1, 2, 3, size // 2, size - 1}):
                if 0 < smaller < size:
                    less = (*call[:j], smaller, *call[j + 1 :])
                    yield replace(
                        program, calls=(*program.calls[:i], less, *program.calls[i + 1 :])
                    )
