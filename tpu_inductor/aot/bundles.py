"""Reads libtpu's `final_bundles` text, one VLIW bundle a line, into frozen values.

    0x21   : > { %112 = sbr.rel (%p109_p1) target = $region24  ;;  %s750_s22 = sshll.u32 %s10, 11 }

is a bundle of two instructions: a guarded branch, and a shift whose result is `s750_s22`. Most
vector instructions are left out: only those that hold the core back, or give a scalar, matter here.
"""

import re
from dataclasses import dataclass

_EUP = r"(?:pow2|log2|rcp|rsqrt|tanh|sigshft|erf|sin|cos)\b"
_BUNDLE = re.compile(r" *(?:0x[0-9a-f]+|0) +(?:[A-Z]{2})?: *>* *\{(.*)\}")
_VECTOR_ONLY = re.compile(
    rf"\s*(?:%(?:v\w*|\d+) = )?v(?!mat|pop|xpose|sync|wait|{_EUP})(?!.*(?:mx|xl)u\d)"
)
_INSTRUCTION = re.compile(r"\s*(?:%(\w+) = )?([\w.\-<>]+)\s*(.*)$")
_ATTRIBUTE = re.compile(r"\[(?:thread|resolvable):[^\]]*\]")
_GUARD = re.compile(r"\((!?%p\w+)\)")
_UNIT = re.compile(r"(?:mx|xl)u\d")
_EUP_OP = re.compile("v" + _EUP)
_VALUE = re.compile(r"%(\w+)")

_COMMENT_EDGE = re.compile(r"/\*(\w+=)\*/|/\*|\*/")
_REGION = re.compile(r"Start(?:/End empty)? region (\d+)")
_CALLEE = re.compile(r"\s*(?:%([\w.\-]+) = |(<late-\w+>))")
_REGION_MARK = re.compile("\x01R([^\x02]*)\x02")
_NOTE_MARK = re.compile("\x01N([^\x02]*)\x02")
_ANY_MARK = re.compile("\x01[^\x02]*\x02")


@dataclass(frozen=True, slots=True)
class Instruction:
    """`%result = op operands`, run if `guard` holds ("%p3", "!%p3" or "").

    `note` is what its comment adds: the instruction that a call runs, "core" of a load of the
    core's number, "kRem" of a remainder. `unit` is the MXU or XLU in use, or "eup", or "".
    """

    result: str
    op: str
    operands: str
    guard: str = ""
    note: str = ""
    unit: str = ""

    @property
    def arguments(self) -> list[str]:
        """The operands, apart."""
        return [a.strip() for a in self.operands.strip(" ,").split(",") if a.strip()]

    @property
    def values(self) -> list[str]:
        """Names of the values read, the guard among them."""
        return _VALUE.findall(self.operands) + _VALUE.findall(self.guard)


@dataclass(frozen=True, slots=True)
class Listing:
    """The bundles of one program, and the index of the first bundle of its numbered regions."""

    bundles: tuple[tuple[Instruction, ...], ...]
    regions: dict[int, int]


def parse_bundles(text: str) -> Listing:
    """The listing that a `final_bundles` file holds."""
    bundles: list[tuple[Instruction, ...]] = []
    regions: dict[int, int] = {}
    for line in _mark_comments(text).split("\n"):
        match = _BUNDLE.match(line)
        if match is None:
            continue
        for numbers in _REGION_MARK.findall(line) if "\x01R" in line else ():
            regions |= {int(number): len(bundles) for number in numbers.split(",")}
        parts = (_parse_instruction(part) for part in match[1].split(";;"))
        bundles.append(tuple(part for part in parts if part is not None))
    return Listing(tuple(bundles), regions)


def _parse_instruction(text: str) -> Instruction | None:
    if _VECTOR_ONLY.match(text):
        return None
    note = ""
    if "\x01" in text:
        noted = _NOTE_MARK.search(text)
        note = noted[1] if noted else ""
        text = _ANY_MARK.sub("", text)
    match = _INSTRUCTION.match(text)
    if match is None:
        return None
    op, operands = match[2], _ATTRIBUTE.sub("", match[3]).strip()
    unit = _find_unit(op, operands)
    guard = _GUARD.search(operands)
    if guard:
        operands = operands[: guard.start()] + operands[guard.end() :]
    return Instruction(match[1] or "", op, operands, guard[1] if guard else "", note, unit)


def _find_unit(op: str, operands: str) -> str:
    unit = _UNIT.search(op) or _UNIT.search(operands)
    if unit:
        return unit[0]
    return "eup" if _EUP_OP.match(op) else ""


def _mark_comments(text: str) -> str:
    """Replaces comments, which nest and span lines, by marks of what matters in them.

    `/*size_in_granules=*/%s4` names an operand --> `@size_in_granules=%s4`
    """
    kept: list[str] = []
    depth = start = end = 0
    for edge in _COMMENT_EDGE.finditer(text):
        if depth == 0 and edge[0] != "*/":
            kept.append(text[end : edge.start()])
            start = end = edge.end()
        if edge[1]:
            kept += ["@", edge[1]] if depth == 0 else []
        elif edge[0] == "/*":
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                kept.append(_mark(text[start : edge.start()]))
                end = edge.end()
    return "".join(kept) + text[end:]


def _mark(comment: str) -> str:
    if regions := _REGION.findall(comment):
        return f"\x01R{','.join(regions)}\x02"
    if callee := _CALLEE.match(comment):
        return f"\x01N{callee[1] or callee[2]}\x02"
    if comment.strip() in ("core id", "kRem"):
        return f"\x01N{comment.split()[0]}\x02"
    return ""
