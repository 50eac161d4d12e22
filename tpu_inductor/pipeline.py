"""The compiler, stage by stage: from an FX graph to a callable.

    FX graph -> Graph -> Partition -> Scheduled -> Programs -> CompiledGraph

Every stage is a pure function between frozen values. Dumping happens between stages, never inside.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.fx import GraphModule

from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.codegen.program import Program, print_program
from tpu_inductor.collector import pause_collector
from tpu_inductor.errors import Reject, Unsupported
from tpu_inductor.front.import_fx import import_fx
from tpu_inductor.front.outputs import with_values
from tpu_inductor.front.symbols import Sizes
from tpu_inductor.graph.attrs import EagerCall
from tpu_inductor.graph.channels_last import move_channels_last
from tpu_inductor.graph.checks import drop_proven_checks, split_argument_checks
from tpu_inductor.graph.constants import copy_constants
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.narrow import narrow_integers
from tpu_inductor.graph.signature import Signature
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.slices import slice_before_transposing
from tpu_inductor.graph.verify import verify
from tpu_inductor.lowerings.torch_conv import leave_to_torch
from tpu_inductor.options import Interpret, Options
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.region import Partition, Tier
from tpu_inductor.regions.verify import verify_partition
from tpu_inductor.runtime.adapters.cpu import CpuAdapter
from tpu_inductor.runtime.compiled import CompiledGraph, Plan
from tpu_inductor.schedule.assign import (
    Scheduled,
    assign_schedules,
    choose_by_estimate,
    limit_kernels,
    settle_neighbours,
)
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.target import TpuTarget, target
from tpu_inductor.templates import templates_for
from tpu_inductor.tune.measure import DevicelessMeasurer, can_measure
from tpu_inductor.tune.store import TuningStore
from tpu_inductor.tune.tuner import Tuner

TUNING_MODES = ("max-autotune", "max-autotune-no-cudagraphs")

TO_ADD = "To add a lowering: CONTRIBUTING.md#lowering"

log = logging.getLogger("tpu_inductor")

Observer = Callable[[str, object], None]
"""Called with the name of a stage and its result, whose `str` is the dump."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """What is known of a graph before it meets the runtime."""

    scheduled: Scheduled
    plan: Plan


@pause_collector()
def lower_graph(
    gm: GraphModule, name: str, sizes: Sizes, options: Options, observe: Observer
) -> Lowered | Reject:
    """All stages before the runtime. Rejects a graph that is not one of plain tensors."""
    chip = target(options.target or "cpu")
    given = options.check_indices
    has_checks = not chip.is_tpu if given is None else given
    imported = import_fx(gm, name, sizes, has_checks=has_checks, eager_ops=options.eager_ops)
    if isinstance(imported, Reject):
        return imported
    observe("graph", imported.graph)
    proven, checks = drop_proven_checks(simplify(imported.graph)), ()
    if not chip.is_tpu:
        proven, checks = split_argument_checks(proven)
    graph = narrow_integers(slice_before_transposing(proven))
    if not chip.is_tpu:
        graph = leave_to_torch(move_channels_last(graph, may_use_torch=not options.strict))
    graph = replace(graph, eqns=copy_constants(graph.eqns, graph.inputs))
    verify(graph)
    observe("simplified", graph)
    partition = partition_regions(graph, chip, prefer=options.prefer)
    verify_partition(partition)
    observe("regions", partition)
    scheduled = limit_kernels(schedule_regions(partition, chip, options, observe), options.fuel)
    verify_schedules(scheduled, chip)
    observe("schedule", scheduled)
    tell_eager(scheduled, options, observe)
    steps = print_steps(name, scheduled, chip)
    outputs = with_values(imported.signature.outputs, graph.outputs)
    signature = Signature(imported.signature.inputs, outputs)
    plan = Plan(name, graph, signature, imported.constants, steps, _interpret(options), checks)
    return Lowered(scheduled, plan)


def schedule_regions(
    partition: Partition, chip: TpuTarget, options: Options, observe: Observer
) -> Scheduled:
    """Schedules by estimate, or by measurement in a mode that asks for it and has the means."""
    default = choose_by_estimate(chip, templates_for(chip), options.prefer)
    if options.mode not in TUNING_MODES or not chip.is_tpu or not can_measure():
        scheduled = assign_schedules(partition, default)
        if options.prefer == "pallas":
            return scheduled
        return settle_neighbours(partition, scheduled, chip)
    all_xla = partition_regions(partition.graph, chip, prefer="xla")
    verify_partition(all_xla)
    store = TuningStore.open(options.cache_dir)
    with CompilerPool() as pool:
        measurer = DevicelessMeasurer(pool, chip)
        may_use_xla = options.prefer != "pallas"
        tuner = Tuner(chip, default, store, measurer, may_use_xla)
        tuned = tuner.tune(partition, all_xla)
    observe("tuning", tuned)
    return tuned.scheduled


def compile_graph(
    gm: GraphModule, name: str, sizes: Sizes, options: Options, observe: Observer
) -> CompiledGraph | Reject:
    """A callable for one concrete graph.

    Raises Unsupported for an eager call in strict mode, and for a TPU target without `interpret`.
    """
    if not _interpret(options):
        raise Unsupported(
            f"programs for {options.target} cannot be run yet: there is no TPU runtime. Set the "
            "option interpret to True to run their kernels on the CPU, or look at them with "
            "tpu_inductor.explain"
        )
    lowered = lower_graph(gm, name, sizes, options, observe)
    if isinstance(lowered, Reject):
        return lowered
    observe("steps", lowered.plan)
    count_work(lowered.scheduled)
    return CompiledGraph(lowered.plan, CpuAdapter())


def print_steps(name: str, scheduled: Scheduled, chip: TpuTarget) -> tuple[Program | Eqn, ...]:
    """Programs and eager calls, in the order in which they run."""
    steps: list[Program | Eqn] = []
    for segment in scheduled.partition.segments:
        if segment.is_eager:
            steps += [eqn for region in segment.regions for eqn in region.eqns]
        else:
            part = f"{name}_{len(steps)}" if len(scheduled.partition.segments) > 1 else name
            steps.append(print_program(part, chip.name, segment, scheduled.schedules))
    return tuple(steps)


def tell_eager(scheduled: Scheduled, options: Options, observe: Observer) -> None:
    """Logs every call without a lowering. In strict mode the first one raises Unsupported."""
    for region in scheduled.partition.regions:
        call = region.eqns[0].attrs
        if not isinstance(call, EagerCall) or call.is_chosen:
            continue
        origin = region.eqns[0].origin
        what = region.reason if origin.op in region.reason else f"{origin.op}: {region.reason}"
        if options.strict:
            refusal = f"{what} - {origin.place}; strict mode refuses to run it eagerly. {TO_ADD}"
            observe("fallbacks", refusal)
            raise Unsupported(refusal)
        log.info("%s - %s; runs eagerly. %s", what, origin.place, TO_ADD)


def work_of(scheduled: Scheduled) -> dict[str, int]:
    """How much runs where: programs, kernels, primitives in XLA and ATen calls in torch."""
    regions = scheduled.partition.regions
    xla = {id(e) for r in regions if r.tier is Tier.XLA for e in r.eqns}
    return {
        "programs": sum(not s.is_eager for s in scheduled.partition.segments),
        "kernels": sum(r.tier is Tier.PALLAS for r in regions),
        "xla_ops": len(xla),
        "eager_ops": sum(r.tier is Tier.EAGER for r in regions),
    }


def count_work(scheduled: Scheduled) -> None:
    """Adds the work of one graph to torch's own counters, under "tpu_tile"."""
    for key, n in work_of(scheduled).items():
        torch._dynamo.utils.counters["tpu_tile"][key] += n


def _interpret(options: Options) -> Interpret:
    is_cpu = options.target in (None, "cpu")
    return True if is_cpu else options.interpret
