"""Regions without what does not matter for how they run: names and lines of users.

Equal layers of a model have equal canonical regions, so they are scheduled and measured once.
"""

from collections.abc import Mapping
from dataclasses import replace

from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.origin import COMPILER
from tpu_inductor.regions.factors import Factoring
from tpu_inductor.regions.region import Region

NAME = "region"


def canonical_region(region: Region) -> Region:
    """`region` with values numbered in the order in which they appear."""
    renamed = {v: Var(f"v{i}", v.type) for i, v in enumerate(values_of(region))}
    return Region(
        NAME,
        region.tier,
        tuple(_rename(eqn, renamed) for eqn in region.eqns),
        tuple(renamed[v] for v in region.inputs),
        tuple(renamed[v] for v in region.outputs),
        _rename_factoring(region.factoring, renamed),
        region.rows,
    )


def _rename(eqn: Eqn, renamed: Mapping[Var, Var]) -> Eqn:
    def of(value: Value) -> Value:
        return value if isinstance(value, Lit) else renamed[value]

    outputs = tuple(renamed[v] for v in eqn.outputs)
    return Eqn(eqn.prim, tuple(map(of, eqn.inputs)), outputs, eqn.attrs, COMPILER)


def _rename_factoring(factoring: Factoring | None, renamed: Mapping[Var, Var]) -> Factoring | None:
    if factoring is None:
        return None
    return replace(factoring, values={renamed[v]: dims for v, dims in factoring.values.items()})


def region_text(canonical: Region) -> str:
    """All there is to know of a canonical region, its types among it."""
    inputs = ", ".join(f"{v}: {v.type}" for v in canonical.inputs)
    return f"{inputs}\n{canonical}"


def values_of(region: Region) -> tuple[Var, ...]:
    """The values of a region in the order in which they appear, each once."""
    made = (v for eqn in region.eqns for v in eqn.outputs)
    return tuple(dict.fromkeys((*region.inputs, *made)))
