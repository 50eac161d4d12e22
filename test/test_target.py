"""Targets agree with what jax says of the chips."""

import pytest
from jax._src.pallas.mosaic import tpu_info

from tpu_inductor.errors import Unsupported
from tpu_inductor.graph.types import DType
from tpu_inductor.options import TARGETS as NAMES
from tpu_inductor.target import TARGETS, target

CHIPS = {
    "v4": tpu_info.ChipVersion.TPU_V4,
    "v5e": tpu_info.ChipVersion.TPU_V5E,
    "v5p": tpu_info.ChipVersion.TPU_V5P,
    "v6e": tpu_info.ChipVersion.TPU_V6E,
    "tpu7x": tpu_info.ChipVersion.TPU_7X,
}


@pytest.mark.parametrize("name", CHIPS)
def test_numbers_are_those_of_jax(name):
    info = tpu_info.get_tpu_info_for_chip(CHIPS[name], 1)
    ours = target(name)
    assert ours.generation == info.generation
    assert (ours.lanes, ours.mxu_size, ours.mxus) == (
        info.num_lanes,
        info.mxu_column_size,
        info.num_mxus,
    )
    assert ours.vmem_bytes == info.vmem_capacity_bytes
    assert ours.smem_bytes == info.smem_capacity_bytes
    assert ours.bf16_tflops * 1e12 == pytest.approx(info.bf16_ops_per_second, rel=1e-3)


@pytest.mark.parametrize("name", CHIPS)
def test_bandwidth_is_that_of_jax_but_for_v5p(name):
    info = tpu_info.get_tpu_info_for_chip(CHIPS[name], 1)
    # JAX has 1230 GB/s for a core; the specification of v5p has 2765 for a chip of two.
    published = 2765e9 / 2 if name == "v5p" else info.mem_bw_bytes_per_second
    assert target(name).hbm_gbps * 1e9 == pytest.approx(published, rel=1e-3)


def test_every_option_is_a_target():
    assert tuple(TARGETS) == NAMES


def test_sublanes_pack_by_width():
    sublanes = target("v5e").sublanes
    assert [sublanes(d) for d in (DType.F32, DType.BF16, DType.I8, DType.I64)] == [8, 16, 32, 8]


def test_an_unknown_target_names_the_valid_ones():
    with pytest.raises(Unsupported, match=r"'v9'.*cpu, v4, v5e"):
        target("v9")


def test_none_is_the_cpu_without_a_limit():
    cpu = target(None)
    assert not cpu.is_tpu
    assert cpu.vmem_limit_bytes > 1 << 50
