"""Statements with the record that they are about, and a label: is it supported there?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

LABELS = ("supported", "invented", "negated", "number")


@dataclass(frozen=True)
class Pair:
    file: str
    record_no: int
    record: list[str]
    label: str
    statement: str


def pairs(file: Path) -> Iterator[Pair]:
    for number, entry in enumerate(yaml.safe_load(file.read_text("utf-8"))):
        for label in LABELS:
            for statement in entry.get(label, []):
                yield Pair(file.stem, number, entry["record"], label, statement)
