"""Puts what vs_xla.py found into the documents: python benchmarks/publish.py docs/versus_xla.json

docs/versus_xla.md               every row, in tables
docs/*.svg, *.png                the pictures of plot.py
README.md                        the lines between its marks
"""

import argparse
import json
from pathlib import Path
from typing import Any

from plot import plot
from versus_page import page, readme_lines

START, END = "<!-- versus: made by benchmarks/publish.py -->\n", "<!-- end of versus -->\n"


def put_lines(text: str, lines: str) -> str:
    """`text` with `lines` between the marks. Raises ValueError where there are none."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"no lines {START.strip()} and {END.strip()} to write between")
    return f"{before}{start}{lines}\n{end}{after}"


def publish(record: Any, root: Path) -> None:
    """Writes the documents of a repository."""
    readme = root / "README.md"
    readme.write_text(put_lines(readme.read_text(), readme_lines(record)))
    (root / "docs" / "versus_xla.md").write_text(page(record))
    plot(record, root / "docs")


def main() -> None:
    parser = argparse.ArgumentParser(description="Publish a comparison with XLA in the documents")
    parser.add_argument("file", type=Path, help="what vs_xla.py wrote with --json")
    publish(json.loads(parser.parse_args().file.read_text()), Path(__file__).parent.parent)


if __name__ == "__main__":
    main()
