"""What a compiled program would cost: on bundles written by hand, and on kernels compiled here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from price_kernels import BF16, F32

from tpu_inductor.aot.bundles import parse_bundles
from tpu_inductor.aot.interlocks import find_interlocks
from tpu_inductor.aot.price import price_dump
from tpu_inductor.aot.scalar import UNKNOWN, either, negate, select, unsigned, wrap
from tpu_inductor.aot.timing import TIMINGS
from tpu_inductor.errors import DumpError, Unsupported
from tpu_inductor.options import prepare_libtpu
from tpu_inductor.target import TARGETS, target

pytestmark = pytest.mark.aot

V5E = target("v5e")
CLOCK = TIMINGS["v5e"]
GRANULE = CLOCK.granule_bytes


def listing(*bundles):
    return "\n".join(f"  {at:#x}   : > {{ {bundle} }}" for at, bundle in enumerate(bundles))


def dump(folder, top, **programs):
    for name, bundles in {"TLP": top, **programs}.items():
        (folder / f"1-{name}-02-final_bundles.txt").write_text(listing(*bundles))
    return folder


def price(folder, *bundles, **programs):
    return price_dump(dump(folder, bundles, **programs), V5E)


def cycles(found):
    return found.time_us * CLOCK.clock_mhz


def fetch(granules, guard=""):
    """A DMA of so many granules from HBM, raising the semaphore of allocation 3."""
    return (
        f"%5 = dma.hbm_to_vmem [thread:$0]  {guard}, /*hbm=*/%s1_s1, "
        f"/*size_in_granules=*/{granules}, /*vmem=*/%s2_s2, /*dst_syncflagno=*/[#allocation3]"
    )


def transfer_cycles(granules):
    return granules * GRANULE / CLOCK.bytes_per_cycle + CLOCK.dma_latency_cycles


def loop(count):
    """A loop of 9 bundles that runs `count` times, 4 delay slots included, and one before it."""
    return [
        "%s1_s0 = smov 0",
        "%s2_s0 = sphi %s1_s0, %s3_s0 /* Start region 7 */",
        "%s3_s0 = sadd.s32 1, %s2_s0",
        f"%p4_p0 = scmp.lt.s32.totalorder %s3_s0, {count}",
        "%v9_v0 = vadd.f32 %v1_v1, %v2_v2",
        "%6 = sbr.rel (%p4_p0) target = $region7",
        *[""] * 4,
    ]


def test_instructions_and_regions_are_read():
    text = listing(
        "%s1_s0 = smov 4 /* copy /* nested */ for cssa */  ;;  %9 = vst [vmem:[%s1_s0]] %v1_v0",
        "%3 = sbr.rel (!%p1_p0) target = $region5 /* Start region 5 :: Start region 8 */",
        "%4 = vmatmul.bf16.gmra.mxu2 %v1_v0  ;;  %v2_v1 = vpow2.f32 %v1_v0",
    )
    found = parse_bundles(text)
    assert found.regions == {5: 1, 8: 1}
    (move,), (branch,), (matmul, power) = found.bundles
    assert (move.result, move.op, move.arguments) == ("s1_s0", "smov", ["4"])
    assert (branch.guard, branch.operands.strip()) == ("!%p1_p0", "target = $region5")
    assert (matmul.unit, power.unit) == ("mxu2", "eup")


def test_comments_span_lines_and_name_operands():
    text = "  0  :  { %1 = dma.hbm_to_smem /*hbm=*/%s1, /*size_in_granules=*/16 /* \na: (1)\n */ }"
    ((dma,),) = parse_bundles(text).bundles
    assert dma.arguments == ["@hbm=%s1", "@size_in_granules=16"]


def test_a_bundle_takes_a_cycle(tmp_path):
    found = price(tmp_path, "%s1_s0 = smov 0", "", "")
    assert found.trusted
    assert cycles(found) == pytest.approx(3)


@pytest.mark.parametrize("count", [1, 5])
def test_a_loop_runs_as_often_as_it_says(tmp_path, count):
    assert cycles(price(tmp_path, *loop(count))) == pytest.approx(1 + 9 * count)


def test_a_guarded_dma_runs_if_its_predicate_holds(tmp_path):
    guard = "%p1_p0 = scmp.eq.s32.totalorder 1, {}"
    for value, size in (1, 64 * GRANULE), (2, 0):
        found = price(tmp_path, guard.format(value), fetch(64, "(%p1_p0)"))
        assert (found.hbm_bytes, found.trusted) == (size, True)


@pytest.mark.parametrize(
    ("op", "truths"),
    [("por", 0b1110), ("pand", 0b1000), ("pnand", 0b0111), ("pnor", 0b0001), ("pxor", 0b0110)],
)
def test_predicates_are_combined(tmp_path, op, truths):
    for case in range(4):
        sides = [f"%p{i}_p{i} = scmp.eq.s32.totalorder {case >> i & 1}, 1" for i in range(2)]
        both = f"%p2_p2 = {op} %p0_p0, %p1_p1"
        found = price(tmp_path, *sides, both, fetch(64, "(%p2_p2)"))
        assert (found.hbm_bytes > 0) == truths >> case & 1, case


def test_a_predicate_that_is_not_computed_is_false(tmp_path):
    """A loop's second round skips what set the predicate in its first."""
    first = "%p7_p1 = scmp.lt.s32.totalorder %s2_s0, 1"
    again = "%p8_p2 = scmp.ge.s32.totalorder %s2_s0, 0 (%p7_p1)"
    body = loop(2)
    body[2:2] = [first, again, fetch(64, "(%p8_p2)")]
    assert price(tmp_path, *body).hbm_bytes == 64 * GRANULE


def test_a_size_is_computed(tmp_path):
    found = price(tmp_path, "%s7_s0 = smov 3", "%s8_s1 = sshll.u32 %s7_s0, 5", fetch("%s8_s1"))
    assert found.hbm_bytes == 3 * 32 * GRANULE


def test_operands_are_read_before_results_are_written(tmp_path):
    swap = "%s1_s0 = smov %s2_s1  ;;  %s2_s1 = smov %s1_s0"
    found = price(tmp_path, "%s1_s0 = smov 1  ;;  %s2_s1 = smov 50", swap, fetch("%s2_s1"))
    assert found.hbm_bytes == GRANULE


def test_a_wait_moves_the_clock_to_the_end_of_the_dma(tmp_path):
    found = price(tmp_path, fetch(4096), "%6 = dma.done.wait [#allocation3], 4096", "")
    (op,) = found.ops
    # The wait is in the bundle after the start, and takes a cycle of its own.
    assert cycles(found) == pytest.approx(transfer_cycles(4096) + 2)
    assert op.stall_cycles == pytest.approx(transfer_cycles(4096) - 1)
    assert (op.cycles, op.dmas, op.read_bytes) == (3, 1, 4096 * GRANULE)


def test_a_dma_that_names_no_memories_reads_hbm(tmp_path):
    described = fetch(4096).replace("hbm_to_vmem", "general").replace("hbm=", "src=")
    wait = "%6 = dma.done.wait [#allocation3], 4096"
    found = price(tmp_path, described, wait)
    assert cycles(found) == pytest.approx(transfer_cycles(4096) + 1)
    assert (found.hbm_bytes, found.ops[0].local_bytes) == (4096 * GRANULE, 0)


def test_dmas_share_the_bandwidth_but_not_the_latency(tmp_path):
    found = price(tmp_path, fetch(4096), fetch(4096), "%6 = dma.done.wait [#allocation3], 8192")
    assert cycles(found) == pytest.approx(transfer_cycles(8192) + 1)


def test_a_size_from_memory_is_not_trusted(tmp_path):
    found = price(tmp_path, "%s7_s0 = sld [smem:[#allocation9]]", fetch("%s7_s0"))
    assert not found.trusted
    assert (found.unknown_branches, found.hbm_bytes) == (1, 0)


def test_a_predicate_from_memory_is_not_trusted_and_holds(tmp_path):
    read = "%s7_s0 = sld [smem:[#allocation9]]"
    found = price(tmp_path, read, "%p1_p0 = scmp.eq.s32 %s7_s0, 0", fetch(64, "(%p1_p0)"))
    assert (found.unknown_branches, found.hbm_bytes) == (1, 64 * GRANULE)


def test_a_loop_bound_from_memory_is_not_trusted_and_ends_the_loop(tmp_path):
    called = ["%s8_s0 = sld [smem:[#allocation9]]", *loop("%s8_s0")]
    found = price(tmp_path, "%9 = inlined_call /* %kernel = custom-call() */", kernel=called)
    assert found.unknown_branches == 1
    assert cycles(found) == pytest.approx(1 + 1 + 1 + 9)


def test_the_runtimes_own_branches_are_no_doubt(tmp_path):
    read, branch = "%s8_s0 = sld [smem:[#allocation9]]", "%p1_p0 = scmp.eq.s32 %s8_s0, 0"
    jump = ["%3 = sbr.rel (%p1_p0) target = $region5", *[""] * 4]
    found = price(tmp_path, read, branch, *jump * 3, " /* Start region 5 */")
    assert found.unknown_branches == 1
    assert cycles(found) == pytest.approx(2 + 3 * 5 + 1)


def test_a_warm_program_finds_its_first_operand_fetched(tmp_path):
    read, predicate = "%s8_s0 = sld [smem:[#allocation9]]", "%p1_p0 = scmp.eq.s32 %s8_s0, 0"
    size = "%s9_s1 = scalar_select /*predicate=*/%p1_p0, /*on_true=*/0, /*on_false=*/64"
    folder = dump(tmp_path, [read, predicate, size, fetch("%s9_s1")])
    assert price_dump(folder, V5E).hbm_bytes == 64 * GRANULE
    assert price_dump(folder, V5E, warm=True).hbm_bytes == 0


def test_what_is_stored_is_loaded(tmp_path):
    store = "%9 = sst [smem:[#allocation9 + $0x4]] %s1_s0"
    load = "%s7_s1 = sld [smem:[#allocation9 + $0x4]]"
    found = price(tmp_path, "%s1_s0 = smov 8", store, load, fetch("%s7_s1"))
    assert (found.trusted, found.hbm_bytes) == (True, 8 * GRANULE)


def test_a_call_passes_arguments_and_is_counted_apart(tmp_path):
    read = "%s1574_s0 = inlined_call_operand.hbm [shape: f32[8], index: 1, kind: input]"
    call = "%9 = inlined_call 3, 7 /* %fusion.2 = f32[8] fusion(%x) */"
    found = price(tmp_path, call, call, **{"fusion.2": [read, fetch("%s1574_s0")]})
    top, fusion = found.ops
    assert (top.calls, top.cycles) == (1, 2)
    assert (fusion.name, fusion.calls, fusion.cycles) == ("fusion.2", 2, 4)
    assert fusion.read_bytes == 2 * 7 * GRANULE


def test_an_instruction_without_a_dump_is_missing(tmp_path):
    found = price(tmp_path, "%9 = inlined_call /* %lost = f32[8] fusion(%x) */")
    assert (found.missing, found.trusted) == (("lost",), False)


def test_instructions_compiled_once_share_a_listing(tmp_path):
    calls = [f"%9 = inlined_call /* %{name} = fusion() */" for name in ("one", "two")]
    duplicates = "key:one\nordinal:1\nequivalent_hlos[size=2]:\n  one\n  two\n"
    (tmp_path / "1-TLP-00-deduplication-map.txt").write_text(duplicates)
    found = price(tmp_path, *calls, one=["", "", ""])
    assert [(op.name, op.cycles) for op in found.ops[1:]] == [("one", 3), ("two", 3)]


def test_the_compilers_own_estimate_is_taken_from_the_hlo(tmp_path):
    call = "%9 = inlined_call /* %fusion = f32[8] fusion(%x) */"
    folder = dump(tmp_path, [call, call], fusion=[""])
    hlo = '  ROOT %fusion = f32[8] fusion(%x), backend_config={"estimated_cycles":"70"}'
    assert [op.xla_cycles for op in price_dump(folder, V5E, hlo=hlo).ops] == [0, 140]


def test_results_of_units_are_waited_for():
    text = listing("%2 = vmax.xlane.f32.xlu0 %v1_v0", "%v3_v1 = vpop.xlane.xlu0 %2")
    locks = find_interlocks(parse_bundles(text).bundles, CLOCK)
    assert locks.stall_cycles == CLOCK.xlu_latency - 1


def test_an_mxu_works_in_order_behind_a_short_queue():
    matmuls = [f"%{n} = vmatmul.bf16.gmra.mxu0 %v1_v0" for n in range(16)]
    locks = find_interlocks(parse_bundles(listing(*matmuls)).bundles, CLOCK)
    assert locks.mxu_cycles == 16 * 16 / CLOCK.mxus
    # The last starts when the fourth before it is done: 12 of 16 cycles each, less 15 bundles.
    assert locks.stall_cycles == 12 * 16 - 15


def test_unknown_scalars_absorb_all_but_what_decides():
    assert wrap(UNKNOWN + 1) is unsigned(7 - UNKNOWN) is UNKNOWN
    assert (UNKNOWN == 3) is UNKNOWN
    assert either(UNKNOWN, True) is True
    assert either(UNKNOWN, False) is negate(UNKNOWN) is select(UNKNOWN, 1, 2) is UNKNOWN
    assert (wrap(0xFFFFFFFF), unsigned(-1)) == (-1, 0xFFFFFFFF)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(UNKNOWN)


def test_a_folder_without_a_program_says_what_to_do(tmp_path):
    with pytest.raises(DumpError, match="prepare_libtpu"):
        price_dump(tmp_path, V5E)


def test_both_cores_of_a_megacore_are_counted(tmp_path):
    folder = dump(tmp_path, [fetch(4096), "%6 = dma.done.wait [#allocation3], 4096"])
    found, alone = price_dump(folder, target("v5p")), price_dump(folder, V5E)
    assert found.hbm_bytes == 2 * alone.hbm_bytes
    assert found.hbm_us == pytest.approx(found.hbm_bytes / 2765e3)


def test_only_tpus_have_a_price(tmp_path):
    with pytest.raises(Unsupported, match="cpu"):
        price_dump(dump(tmp_path, [""]), target("cpu"))


def test_every_tpu_has_a_timing():
    assert set(TIMINGS) == {name for name, chip in TARGETS.items() if chip.is_tpu}


def test_dumping_is_added_to_the_flags_of_libtpu():
    environ = {"LIBTPU_INIT_ARGS": "--mine"}
    prepare_libtpu(environ, dump_to=Path("/dumps"))
    assert environ["LIBTPU_INIT_ARGS"].split()[:2] == ["--mine", "--xla_jf_dump_to=/dumps"]
    with pytest.raises(ValueError, match="white space"):
        prepare_libtpu(environ, dump_to=Path("/my dumps"))


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    script = Path(__file__).with_name("price_kernels.py")
    command = [sys.executable, script, tmp_path_factory.mktemp("dump")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_a_copy_moves_each_byte_twice(priced):
    size = 2 * F32.size * F32.dtype.itemsize
    assert priced["copy 256"]["hbm_bytes"] == priced["copy 16"]["hbm_bytes"] == size
    assert priced["copy 256"]["trusted"]


def test_a_copy_takes_little_more_than_its_bytes(priced):
    assert 1.0 < priced["copy 256"]["time_us"] / priced["copy 256"]["hbm_us"] < 1.5


def test_more_grid_points_cost_more(priced):
    few, many = priced["copy 256"], priced["copy 16"]
    assert many["time_us"] > 2 * few["time_us"]
    assert many["ops"][1]["dmas"] == 16 * few["ops"][1]["dmas"]


def test_vmem_is_two_buffers_of_each_block(priced):
    assert priced["copy 256"]["vmem_bytes"] == 2 * 2 * 256 * F32.shape[1] * 4


@pytest.mark.parametrize("chip", ["v5e", "v6e"])
def test_a_matmul_computes_near_the_peak(priced, chip):
    found = priced[f"matmul {chip}"]
    peak_us = 2 * BF16.shape[0] ** 3 / target(chip).bf16_tflops / 1e6
    assert peak_us <= found["compute_us"] <= 2 * peak_us
    assert found["trusted"]
    assert 0.1 < found["mxu_utilisation"] <= 1


def test_both_cores_of_a_megacore_move_bytes(priced):
    assert priced["copy 256 megacore"]["hbm_us"] < priced["copy 256"]["hbm_us"]


def test_rows_chosen_by_data_are_not_trusted(priced):
    assert priced["gather"]["unknown_branches"] > 0
    assert not priced["gather"]["trusted"]
