"""What a rendering may use up, counted while it runs, and the errors of templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kais.errors import KaisError

OUTPUT_BYTES = 256 * 1024
NODES = 10_000
LOOP_STEPS = 1_000
DEPTH = 64  # far deeper than any Formation; keeps recursion in Python away from its limit
LEAF_CHARACTERS = 65_536  # the bound of the longest text field
INTEGER_BITS = 64  # what the API server stores


@dataclass(frozen=True)
class LeafError:
    """What is wrong in one leaf: where it stands in the tree and, when known, where inside it."""

    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        inside = f", line {self.line}, column {self.column}" if self.line else ""
        return f"{self.path}{inside}: {self.message}"


class TemplateFailed(KaisError):
    """A template cannot be rendered.

    Attributes:
        errors: Every leaf that is wrong, in the order of the tree.
    """

    def __init__(self, errors: Sequence[LeafError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in errors))


class CapExceeded(KaisError):
    """A rendering asked for more than the caps allow; nothing after it is rendered."""


class Refused(KaisError):
    """An expression does what the sandbox does not let it do."""


class Budget:
    """Counts what one rendering uses, over all its leaves."""

    def __init__(self) -> None:
        self.bytes = 0
        self.nodes = 0
        self.steps = 0

    def take(self, used: "Budget") -> bool:
        """Count what another one counted, if there is room for all of it; else count nothing."""
        if self.bytes + used.bytes > OUTPUT_BYTES or self.nodes + used.nodes > NODES:
            return False
        self.bytes += used.bytes
        self.nodes += used.nodes
        return True

    def spend_text(self, text: str) -> None:
        """Count text that goes into the output."""
        self.bytes += len(text) if text.isascii() else len(text.encode())
        if self.bytes > OUTPUT_BYTES:
            raise CapExceeded(f"the output is larger than {OUTPUT_BYTES // 1024} KiB")

    def spend_node(self) -> None:
        """Count one value of the output tree."""
        self.nodes += 1
        if self.nodes > NODES:
            raise CapExceeded(f"the output has more than {NODES:,} nodes")

    def spend_steps(self, count: int) -> None:
        """Count steps of loops, of the tree and inside leaves together."""
        self.steps += count
        if self.steps > LOOP_STEPS:
            raise CapExceeded(f"loops take more than {LOOP_STEPS:,} steps in all")


def check_value(value: Any) -> None:
    """Refuse a value that is too large to be written as text.

    Lists may share members, so that a small value can stand for a gigantic text.
    """
    left, size = [value], 0
    for _ in range(NODES):
        if not left:
            break
        current = left.pop()
        if isinstance(current, str):
            size += len(current)
        elif isinstance(current, dict):
            left += [*current.keys(), *current.values()]
        elif isinstance(current, list | tuple):
            left += current
    if left or size > OUTPUT_BYTES:
        raise CapExceeded(f"a value is larger than {OUTPUT_BYTES // 1024} KiB or {NODES:,} nodes")
