"""The spellings of a workload that are priced: ours, XLA's from the same graph, and by hand.

Workloads are traced with fake tensors: nothing is allocated and nothing runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from pricing import Job
from torch._subclasses.fake_tensor import FakeTensorMode
from workloads import Spec, Workload

from tpu_inductor.aot.messages import Argument, CompileRequest, argument_of
from tpu_inductor.errors import InvalidIR, Unsupported
from tpu_inductor.graph.core import Graph
from tpu_inductor.pipeline import Lowered
from tpu_inductor.regions.region import Tier
from tpu_inductor.reports.explain import Explanation, explain

NARROW = {"int64": "int32", "float64": "float32"}
"""What JAX takes for 64-bit types unless it is told otherwise, so what one writes by hand gets."""

_BY_HAND = '''"""A workload as written by hand."""

from {module} import {name}


def program(*arrays):
    return {name}(*arrays)
'''


class Traceable(Protocol):
    """A torch function and what it takes: all of a workload that is needed to compile it."""

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def specs(self) -> Sequence[Spec]: ...


@dataclass(frozen=True, slots=True)
class Spelling:
    """The programs of a workload for one chip, or why there are none."""

    error: str
    explanation: Explanation | None

    @property
    def lowered(self) -> tuple[Lowered, ...]:
        """Every graph that became programs."""
        graphs = self.explanation.graphs if self.explanation else ()
        return tuple(g.lowered for g in graphs if isinstance(g.lowered, Lowered))

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return tuple(lowered.plan.graph for lowered in self.lowered)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """One for each program."""
        if self.explanation is None or self.error:
            return ()
        target = self.explanation.target
        return tuple(
            Job(
                CompileRequest(p.name, p.source, tuple(map(argument_of, p.inputs)), target),
                is_xla_only=not p.calls,
            )
            for p in self.explanation.programs
        )

    @property
    def left_to_xla(self) -> tuple[str, ...]:
        """`sort: has no factors` for every region that is no kernel and does some work."""
        regions = self.explanation.regions if self.explanation else ()
        found = [
            r for r in regions if r.tier is Tier.XLA and r.reason != "only views and new tensors"
        ]
        return tuple(f"{', '.join(r.words)}: {r.reason}" for r in found)


def spell(workload: Traceable, chip: str, prefer: str, mode: str | None = None) -> Spelling:
    """What the compiler makes of a workload for `chip`, as `prefer` of its options says."""
    options = {"target": chip, "prefer": prefer}
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        args = [spec.empty() for spec in workload.specs]
        try:
            explanation = explain(workload.function, *args, mode=mode, options=options)
        # Dynamo's errors are RuntimeErrors, and wrap whatever a backend raises.
        except (InvalidIR, Unsupported, RuntimeError) as error:
            return Spelling(f"{type(error).__name__}: {error}", None)
    return Spelling(_runs_in_torch(explanation), explanation)


def _runs_in_torch(explanation: Explanation) -> str:
    """Why programs alone are not the whole workload, or nothing."""
    whole = [g.lowered for g in explanation.graphs if not isinstance(g.lowered, Lowered)]
    calls = [r for r in explanation.regions if r.tier is Tier.EAGER]
    return "; ".join(["runs in torch: " + r.reason for r in (*whole, *calls)])


def hand_job(workload: Workload, function: Callable[..., Any], chip: str) -> Job:
    """The workload as one of its functions by hand has it."""
    arguments = tuple(_narrow(spec) for spec in workload.specs)
    source = by_hand_source(function)
    request = CompileRequest(workload.name, source, arguments, chip, has_64_bit=False)
    return Job(request, is_xla_only=True)


def by_hand_source(function: Callable[..., Any]) -> str:
    """A module whose `program` is a function of a module that workers can import."""
    return _BY_HAND.format(module=function.__module__, name=function.__name__)


def _narrow(spec: Spec) -> Argument:
    dtype = str(spec.dtype).removeprefix("torch.")
    return spec.shape, NARROW.get(dtype, dtype)
