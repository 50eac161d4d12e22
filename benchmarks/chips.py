"""Arguments that the comparisons on chips have in common."""

import argparse
from collections.abc import Iterable

from tpu_inductor.aot.require import require_libtpu, tpu_target
from tpu_inductor.errors import Unsupported


def parse_checked(parser: argparse.ArgumentParser, known: Iterable[str]) -> argparse.Namespace:
    """The arguments, of which `workloads` and `chips` must be known; exits with what is not."""
    names = list(known)
    given = parser.parse_args()
    if unknown := sorted(set(given.workloads) - set(names)):
        parser.error(f"unknown workloads {', '.join(unknown)}; there are {', '.join(names)}")
    try:
        require_libtpu()
        for chip in given.chips.split(","):
            tpu_target(chip)
    except Unsupported as error:
        parser.error(str(error))
    return given
