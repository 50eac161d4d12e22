"""Checks a partition: every value is made before it is used, and every result is made."""

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.core import Var
from tpu_inductor.regions.region import Partition


def verify_partition(partition: Partition) -> None:
    """Raises InvalidIR if a region reads what no earlier region makes."""
    graph = partition.graph
    made = set(graph.inputs)
    names: set[str] = set()
    for segment in partition.segments:
        if not made.issuperset(segment.inputs):
            raise InvalidIR(f"a segment reads {sorted(map(str, set(segment.inputs) - made))}")
        for region in segment.regions:
            if region.name in names:
                raise InvalidIR(f"two regions are named {region.name}")
            names.add(region.name)
            if not made.issuperset(region.inputs):
                missing = sorted(map(str, set(region.inputs) - made))
                raise InvalidIR(f"region {region.name} reads {missing} before they are made")
            made.update(region.outputs)
    wanted = {v for v in graph.outputs if isinstance(v, Var)}
    if not made.issuperset(wanted):
        raise InvalidIR(f"no region makes {sorted(map(str, wanted - made))}")
