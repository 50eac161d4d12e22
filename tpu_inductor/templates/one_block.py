"""The CPU's template: the whole iteration space in one block.

XLA:CPU compiles a kernel with one grid point, run in Pallas' interpret mode, as it compiles the
same mathematics without Pallas; every further point copies whole arrays.
"""

from collections.abc import Iterator

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Loops
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.target import TpuTarget


def _accepts(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    return Reject("rows in blocks") if kernel_axes.kept else None


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    yield Tiling(Loops(kernel_axes.axes, ()), "the CPU's memory is one block")


ONE_BLOCK = Template("one_block", _accepts, _candidates)
