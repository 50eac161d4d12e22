"""The families of schedules that a region can get."""

from tpu_inductor.schedule.template import Template
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.accumulate import ACCUMULATE
from tpu_inductor.templates.matmul import MATMUL
from tpu_inductor.templates.one_block import ONE_BLOCK
from tpu_inductor.templates.rows import ROWS
from tpu_inductor.templates.stream import STREAM
from tpu_inductor.templates.stream_block import STREAM_BLOCK
from tpu_inductor.templates.stream_products import STREAM_PRODUCTS


def templates_for(target: TpuTarget) -> tuple[Template, ...]:
    """The templates of a target, in the order in which they are offered a region."""
    return (
        (MATMUL, ROWS, ACCUMULATE, STREAM, STREAM_PRODUCTS)
        if target.is_tpu
        else (ONE_BLOCK, STREAM_BLOCK)
    )
