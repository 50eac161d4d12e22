"""The comparison with XLA, row by row."""

from workloads.matmuls import MATMULS
from workloads.models import MODELS
from workloads.rows import ROWS
from workloads.workload import Spec, Workload

WORKLOADS: dict[str, Workload] = {w.name: w for w in (*ROWS, *MATMULS, *MODELS)}
"""By name."""

__all__ = ["WORKLOADS", "Spec", "Workload"]
