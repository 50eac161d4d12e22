"""Checks that a nest computes what it reads, before it reads it, and stores every result once."""

from collections import Counter
from typing import TypeAlias

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.core import Lit, Var
from tpu_inductor.regions.factors import Access
from tpu_inductor.schedule.arrays import Pattern
from tpu_inductor.schedule.nest import (
    Compute,
    Fold,
    How,
    Interleave,
    Keep,
    Load,
    Loop,
    Nest,
    Store,
    Take,
    walk,
)
from tpu_inductor.schedule.types import TileSchedule

Known: TypeAlias = set[tuple[Pattern, Var | Access]]
"""The values that a place in the nest can read: computed ones, and readings of outer ones."""


def verify_nest(schedule: TileSchedule) -> None:
    """Raises InvalidIR for a read of what is not there yet, or a result not stored once."""
    _verify(schedule, schedule.nest, set(), in_fold=False)
    stored = Counter(n.operand for n in walk(schedule.nest) if isinstance(n, Store))
    for operand in schedule.outputs:
        if stored[operand] != 1:
            raise _invalid(schedule, f"{operand.var} is stored {stored[operand]} times")


def _verify(schedule: TileSchedule, nest: Nest, known: Known, *, in_fold: bool) -> None:
    for node in nest:
        if isinstance(node, (Loop, Interleave)):
            in_grid = isinstance(node, Loop) and node.how is How.GRID
            if in_grid and in_fold:
                raise _invalid(schedule, "a grid axis inside a fold")
            inside = known if in_grid else set(known)
            _verify(schedule, node.body, inside, in_fold=in_fold)
        elif isinstance(node, Fold):
            _verify_fold(schedule, node, known)
        elif isinstance(node, Compute):
            _verify_reads(schedule, node, known)
            outputs = schedule.eqns[node.eqn].outputs
            known.update((schedule.pattern(v, node.order), v) for v in outputs)
        else:
            _verify_moved(schedule, node, known)


def _verify_moved(schedule: TileSchedule, node: Load | Store | Take | Keep, known: Known) -> None:
    """What is read from memory is there from then on; what is written must be there."""
    if isinstance(node, Load):
        if node.operand not in schedule.inputs:
            raise _invalid(schedule, f"{node.operand.var} is loaded and no operand")
        known.update(
            (schedule.access_pattern(a, node.operand.order), a) for a in node.operand.accesses
        )
    elif isinstance(node, Take):
        known.add((schedule.pattern(node.var, node.carry.order), node.var))
    else:
        is_result = isinstance(node, Store)
        order = node.operand.order if is_result else node.carry.order
        var = node.operand.var if is_result else schedule.eqns[node.carry.eqn].out
        if (schedule.pattern(var, order), var) not in known:
            raise _invalid(schedule, f"{var} is written before it is there")


def _verify_fold(schedule: TileSchedule, fold: Fold, known: Known) -> None:
    """What follows the last block sees the carries alone: it is a function of its own."""
    _verify(schedule, fold.each, set(known), in_fold=True)
    _verify(schedule, fold.last, set(), in_fold=True)


def _verify_reads(schedule: TileSchedule, node: Compute, known: Known) -> None:
    for slot, (value, order) in enumerate(
        zip(schedule.eqns[node.eqn].inputs, node.reads, strict=True)
    ):
        if isinstance(value, Lit) or node.taken not in (None, slot):
            continue
        is_there = (schedule.pattern(value, order), value) in known
        access = Access(node.eqn, slot)
        is_read = access in schedule.factoring.accesses
        if is_read and (schedule.access_pattern(access, order), access) in known:
            continue
        if not is_there:
            raise _invalid(schedule, f"{value} is read before it is there")


def _invalid(schedule: TileSchedule, flaw: str) -> InvalidIR:
    return InvalidIR(f"{schedule.region.name}: {flaw}")
