"""Prints everything between two eager calls as one stand-alone Python module.

The module imports jax and pallas alone. `program(*arrays, interpret=False) -> tuple` calls the
kernels and spells what XLA runs; it is traced once, under `jax.enable_x64(True)`, and
is one dispatch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tpu_inductor.codegen.expr import spell
from tpu_inductor.codegen.expr_cpu import spell_for_cpu
from tpu_inductor.codegen.expr_literal import literal
from tpu_inductor.codegen.held import LocalNames
from tpu_inductor.codegen.kernel import Kernel, print_kernel
from tpu_inductor.codegen.names import Names
from tpu_inductor.errors import PREFER_XLA, blame, leave_in_torch
from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.origin import Origin
from tpu_inductor.graph.prims import CHECK
from tpu_inductor.regions.region import Region, Segment, Tier
from tpu_inductor.schedule.types import TileSchedule

_HEADER = '''"""{name}: printed by tpu_inductor for {target}."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

'''


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A region that is a kernel, and the function of the module that launches it.

    Regions with equal kernels share the function, which takes the arrays of the schedule's inputs.
    """

    region: str
    function: str
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Program:
    """`source` defines `program(*arrays, interpret=False) -> tuple` over `inputs` and `outputs`.

    `eqns` are what it computes; a program that was read from a file has none. `calls` are its
    kernels, in the order in which they run. With `checks` there is one more result: what each of
    these equations gives, as a vector.
    """

    name: str
    source: str
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...] = ()
    calls: tuple[KernelCall, ...] = ()

    @property
    def checks(self) -> tuple[Eqn, ...]:
        return _checks(self.eqns)


def print_program(
    name: str, target: str, segment: Segment, schedules: Mapping[str, TileSchedule]
) -> Program:
    """The module of one segment; `schedules` has those of its kernels, by region name."""
    kernels: dict[Kernel, str] = {}
    reserved = LocalNames()
    reserved.used.update(("program", "functools", "interpret", *_value_names(segment)))
    lines: list[str] = []
    calls: list[KernelCall] = []
    for region in segment.regions:
        if region.tier is Tier.PALLAS:
            schedule = schedules[region.name]
            with blame(f"the kernel of {region.name}", region.place, PREFER_XLA):
                kernel = print_kernel(schedule)
            if kernel not in kernels:
                kernels[kernel] = reserved.unique(_function_name(region))
            calls.append(KernelCall(region.name, kernels[kernel], kernel))
            lines.append(_kernel_call(schedule, kernels[kernel]))
        else:
            lines += [_xla_line(eqn, target) for eqn in region.eqns]
    names = Names()
    args = [names.of(v) for v in segment.inputs]
    results = "".join(f"{names.of(v)}, " for v in segment.outputs)
    eqns = tuple(eqn for region in segment.regions for eqn in region.eqns)
    if checks := _checks(eqns):
        results += f"jnp.stack([{', '.join(names.of(eqn.out) for eqn in checks)}]), "
    parts = [_HEADER.format(name=name, target=target)]
    parts += [f"\n{kernel.named(function)}\n" for kernel, function in kernels.items()]
    parts += [f"\ndef program({', '.join([*args, '*', 'interpret=False'])}):\n"]
    parts += [f"    {line}\n" for line in lines]
    parts += [f"    return ({results.strip()})\n"]
    text = "".join(parts)
    return Program(name, text, segment.inputs, segment.outputs, eqns, tuple(calls))


def _checks(eqns: tuple[Eqn, ...]) -> tuple[Eqn, ...]:
    return tuple(eqn for eqn in eqns if eqn.prim == CHECK)


def _value_names(segment: Segment) -> list[str]:
    names = Names()
    defined = [v for r in segment.regions for e in r.eqns for v in e.outputs]
    return [names.of(v) for v in (*segment.inputs, *defined)]


def _function_name(region: Region) -> str:
    return region.name.split(".")[0]


def _kernel_call(schedule: TileSchedule, function: str) -> str:
    names = Names()
    args = "".join(f"{names.of(o.var)}, " for o in schedule.inputs)
    results = "".join(f"{names.of(o.var)}, " for o in schedule.outputs)
    place = _place([e.origin for e in schedule.eqns])
    return f"{results.strip()} = {function}({args}interpret=interpret){place}"


def _xla_line(eqn: Eqn, target: str) -> str:
    names = Names()
    text_of = spell_for_cpu if target == "cpu" else spell
    operands = [literal(v) if isinstance(v, Lit) else names.of(v) for v in eqn.inputs]
    results = ", ".join(names.of(v) for v in eqn.outputs)
    origin = eqn.origin
    with blame(f"{eqn.prim} of {origin.op}", origin.place, leave_in_torch(origin.op)):
        return f"{results} = {text_of(eqn, operands)}{_place([eqn.origin])}"


def _place(origins: list[Origin]) -> str:
    """The user's line behind a statement, as a comment."""
    named = [o for o in origins if o.node]
    if not named:
        return ""
    last = named[-1]
    ops = ", ".join(dict.fromkeys(o.op for o in named))
    where = f" at {last.file.rsplit('/', 1)[-1]}:{last.line}" if last.file else ""
    return f"  # {ops}{where}"
