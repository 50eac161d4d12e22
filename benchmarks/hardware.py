"""Checks the deviceless clock against times that others measured on real TPUs.

python benchmarks/hardware.py tpu_measured.csv --json docs/hardware.json --table docs/hardware.md
python benchmarks/hardware.py --json docs/hardware.json --table docs/hardware.md

The first chooses programs from a table of measured times (see measured.py), and prices those that
the file does not hold yet: a run that is stopped is taken up again. Without a table it only prices
again what is older than the rules of pricing, and writes the page. --chips and --kinds are for runs
in parts. Needs the library that the programs come from: pip install -e ".[hardware]". Nothing runs
on a TPU.
"""

import argparse
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Nothing runs, and without this JAX looks for a TPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from figures import Figure
from hardware_table import (
    SOURCE,
    UNPRICED,
    Checked,
    page,
    read_causes,
    row_line,
    summary_table,
)
from measured import KINDS, Measured, choose, read_measured
from pricing import rules_of, versions
from rich.console import Console

from tpu_inductor.aot.messages import CompileRequest
from tpu_inductor.aot.pool import TIMEOUT_S, CompilerPool
from tpu_inductor.aot.timing import TIMINGS

LIBRARY = "tokamax"

_PROGRAM = '''"""A program whose time was measured."""

from hardware_programs import make_program


def program(*arrays):
    return make_program({kind!r}, {problem!r}, {config!r})(*arrays)
'''

console = Console()


def request_of(measured: Measured) -> CompileRequest:
    """What a compile worker is asked about a measured program."""
    source = _PROGRAM.format(kind=measured.kind, problem=measured.problem, config=measured.config)
    name = measured.kind.replace(" ", "_")
    arguments, chip = measured.arguments, measured.chip
    return CompileRequest(name, source, arguments, chip, is_warm=True, has_64_bit=False)


def read_checked(file: Path) -> list[Checked]:
    """The rows of a file. Those of chips with other rules have no figures."""
    if not file.exists():
        return []
    record = json.loads(file.read_text())
    rules: dict[str, str] = record["rules"]
    rows = [Checked.of_json(values) for values in record["rows"]]
    alike = {chip for chip, digest in rules.items() if digest == rules_of(chip)}
    return [r if r.measured.chip in alike else Checked(r.measured, UNPRICED) for r in rows]


def record(rows: Sequence[Checked]) -> dict[str, Any]:
    """What JSON holds: the rows, and what they depend on."""
    return {
        "what": "estimates of the deviceless clock, and times measured on TPUs by others",
        "source": SOURCE,
        "versions": versions("jax", "libtpu", LIBRARY),
        "rules": {chip: rules_of(chip) for chip in sorted({r.measured.chip for r in rows})},
        "rows": [row.as_json() for row in rows],
    }


def price_rows(rows: Sequence[Checked], pool: CompilerPool) -> Iterator[Checked]:
    """The rows that had no figure, each as soon as it has one."""
    todo = [row.measured for row in rows if row.figure == UNPRICED]
    for measured, reply in zip(todo, pool.run(map(request_of, todo)), strict=True):
        yield Checked(measured, Figure.of(reply, TIMINGS[measured.chip].cores))


def is_asked(measured: Measured, chips: Sequence[str], kinds: Sequence[str]) -> bool:
    """Whether a run of these chips and kinds has to do with a measured program."""
    return measured.chip in chips and measured.kind in kinds


def main() -> None:
    given = _parse()
    rows = {row.measured.key: row for row in read_checked(given.json)}
    chips, kinds = given.chips.split(","), given.kinds.split(",")
    if given.measured:
        for measured in choose(read_measured(given.measured), given.count):
            if is_asked(measured, chips, kinds):
                rows.setdefault(measured.key, Checked(measured, UNPRICED))
    asked = [row for row in rows.values() if is_asked(row.measured, chips, kinds)]
    with CompilerPool(given.jobs, given.timeout) as pool:
        for row in () if given.no_pricing else price_rows(asked, pool):
            rows[row.measured.key] = row
            text = json.dumps(record(list(rows.values())), indent=1)
            given.json.write_text(text + "\n")
            console.print(row_line(row), highlight=False, soft_wrap=True)
    console.print(*summary_table(rows.values()), sep="\n", highlight=False, soft_wrap=True)
    if given.table:
        made = ", ".join(f"{name} {v}" for name, v in versions("jax", "libtpu", LIBRARY).items())
        given.table.write_text(page(made, list(rows.values()), read_causes(given.table)))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check the clock against measured times")
    parser.add_argument("measured", type=Path, nargs="?", help="a table of measured times, as CSV")
    parser.add_argument("--count", type=int, default=9, help="programs of a chip and kind: 9")
    parser.add_argument("--chips", default=",".join(TIMINGS), help="TPU generations; all")
    parser.add_argument("--kinds", default=",".join(KINDS.values()), help="of programs; all")
    parser.add_argument("--json", type=Path, required=True, help="the file of figures, which grows")
    parser.add_argument("--table", type=Path, help="write the tables to this page")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once: 2")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each")
    parser.add_argument("--no-pricing", action="store_true", help="write the page of what is there")
    if importlib.util.find_spec(LIBRARY) is None:
        parser.error(f'{LIBRARY} is not installed: pip install -e ".[hardware]"')
    return parser.parse_args()


if __name__ == "__main__":
    main()
