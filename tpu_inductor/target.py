"""What a schedule may know of the chip: one frozen `TpuTarget` per generation, and the CPU.

Numbers are per TensorCore, as `jax.experimental.pallas.tpu.get_tpu_info` gives them; they are
written out here because schedules are made where there is neither a chip nor a need for jax. The
HBM bandwidth of v5p is that of its specification, 2765 GB/s a chip (docs.cloud.google.com/tpu/docs/
v5p, where 2575 GiB/s is the same); JAX has 2460, and programs were measured that need more.
"""

from dataclasses import dataclass

from tpu_inductor.errors import Unsupported
from tpu_inductor.graph.types import DType

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TpuTarget:
    """A TPU generation, or "cpu", whose memory is unbounded so that every grid is one block.

    `vmem_limit_bytes` is what a kernel may plan with: the rest of `vmem_bytes` is left to the
    compiler's own spills and semaphores. `mxu_size` is the edge of the systolic array. `cores` is
    how many TensorCores one JAX device has; they share the parallel axes of a grid.
    """

    name: str
    generation: int
    topology: str
    mxu_size: int
    mxus: int
    vmem_bytes: int
    vmem_limit_bytes: int
    hbm_gbps: float
    bf16_tflops: float
    clock_mhz: float = 1000.0
    cores: int = 1
    smem_bytes: int = _MIB
    lanes: int = 128

    @property
    def is_tpu(self) -> bool:
        return self.generation > 0

    def sublanes(self, dtype: DType) -> int:
        """Rows of a packed register tile: 8 for 4-byte types, 16 for 2-byte, 32 for 1-byte."""
        return 8 * max(1, 4 // dtype.itemsize)

    @property
    def ridge(self) -> float:
        """bf16 FLOPs per HBM byte above which a kernel is bound by the MXU."""
        return 1000.0 * self.bf16_tflops / self.hbm_gbps


def _tpu(
    name: str,
    generation: int,
    topology: str,
    mxu: tuple[int, int],
    vmem_mib: int,
    hbm_gbps: float,
    bf16_tflops: float,
    clock_mhz: float,
    cores: int = 1,
) -> TpuTarget:
    # The compiler refuses a limit equal to the whole VMEM once it needs scratch of its own.
    limit = vmem_mib * _MIB * 4 // 5
    size, count = mxu
    return TpuTarget(
        name,
        generation,
        topology,
        size,
        count,
        vmem_mib * _MIB,
        limit,
        hbm_gbps,
        bf16_tflops,
        clock_mhz,
        cores,
    )


TARGETS: dict[str, TpuTarget] = {
    t.name: t
    for t in (
        TpuTarget("cpu", 0, "", 128, 1, 1 << 60, 1 << 60, 20.0, 0.1),
        _tpu("v4", 4, "v4:2x2x1", (128, 4), 16, 615.0, 137.5, 1050.0),
        _tpu("v5e", 5, "v5e:2x2", (128, 4), 128, 820.0, 197.0, 1503.0),
        _tpu("v5p", 5, "v5p:2x2x1", (128, 4), 64, 1382.5, 229.5, 1751.0, cores=2),
        _tpu("v6e", 6, "v6e:2x2", (256, 2), 128, 1640.0, 920.0, 1755.0),
        _tpu("tpu7x", 7, "tpu7x:2x2x1", (256, 2), 64, 3700.0, 1155.0, 2200.0),
    )
}
"""Every target by name."""


def target(name: str | None) -> TpuTarget:
    """The target called `name`; None is "cpu". Raises Unsupported with the valid names."""
    found = TARGETS.get(name or "cpu")
    if found is None:
        raise Unsupported(f"unknown target {name!r}. Valid targets: {', '.join(TARGETS)}")
    return found
