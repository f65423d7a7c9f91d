"""The caps of a rendering, counted while it runs, and the errors of templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kais.errors import KaisError

OUTPUT_BYTES = 256 * 1024
NODES = 10_000
LOOP_STEPS = 1_000
OPERATIONS = 500_000
"""The cap on the operations of one rendering: about half a second of processor time.

One operation is one evaluated node of an expression, one item that a filter, test, method or
comparison reads, or `OPERATION_CHARACTERS` characters that it reads or copies.
"""
OPERATION_CHARACTERS = 16
LEAF_TOKENS = 5_000  # arbitrary; a prompt with hundreds of expressions has some thousand
COMPILE_OPERATIONS = 1_000_000
"""The cap on compiling the expressions of a template: about a second, or 3,000 leaves."""
LEAF_OPERATIONS = 250  # the measured cost of compiling a leaf
NODE_OPERATIONS = 40  # added for each of its nodes, or each 16 characters of a text that fails
DEPTH = 64  # far deeper than any Formation; keeps Python's recursion below its limit
LEAF_CHARACTERS = 65_536  # the maximum of the longest text field
INTEGER_BITS = 64  # what the API server stores


@dataclass(frozen=True)
class LeafError:
    """An error in one leaf: its path and, when known, the line and column inside the leaf."""

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
        errors: Every invalid leaf, in the order of the tree.
    """

    def __init__(self, errors: Sequence[LeafError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in errors))


class CapExceeded(KaisError):
    """A rendering exceeded a cap; the rendering ends."""


class Refused(KaisError):
    """The sandbox forbids an operation of an expression."""


class Budget:
    """Counts the resources of one rendering, over all its leaves."""

    def __init__(self) -> None:
        self.bytes = 0
        self.nodes = 0
        self.steps = 0
        self.operations = 0
        self.compiling = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the output is full, so that every further leaf would fail."""
        return self.bytes > OUTPUT_BYTES or self.nodes > NODES

    def merge_if_room(self, other: "Budget") -> bool:
        """Add the counts of another budget unless a cap is exceeded; return whether they fit."""
        if self.bytes + other.bytes > OUTPUT_BYTES or self.nodes + other.nodes > NODES:
            return False
        self.bytes += other.bytes
        self.nodes += other.nodes
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

    def spend_value(self, value: Any) -> None:
        """Count a value with all its members as part of the output."""
        pending = [value]
        while pending:
            current = pending.pop()
            if isinstance(current, str):
                self.spend_text(current)
                continue
            self.spend_node()
            if isinstance(current, dict):
                pending += [*current.keys(), *current.values()]
            elif isinstance(current, list):
                pending += current

    def spend_steps(self, count: int) -> None:
        """Count steps of loops, of the tree and inside leaves together."""
        self.steps += count
        if self.steps > LOOP_STEPS:
            raise CapExceeded(f"loops take more than {LOOP_STEPS:,} steps together")

    def spend_operations(self, count: int) -> None:
        """Count the cost of an evaluation; see `OPERATIONS`."""
        self.operations += count
        if self.operations > OPERATIONS:
            raise CapExceeded(f"expressions take more than {OPERATIONS:,} operations in all")

    def spend_compiling(self, nodes: int) -> None:
        """Count the cost of compiling a leaf with `nodes` nodes."""
        self.compiling += LEAF_OPERATIONS + NODE_OPERATIONS * nodes
        if self.compiling > COMPILE_OPERATIONS:
            raise CapExceeded("the template has too many expressions to compile")


def operations_of(value: Any, limit: int) -> int:
    """Return the number of operations to read a value with all its members.

    Shared members count each time. Counting stops at the first number over `limit`.
    """
    pending, total = [value], 0
    while pending:
        current = pending.pop()
        total += 1
        if isinstance(current, str):
            total += len(current) // OPERATION_CHARACTERS
        elif isinstance(current, dict | list | tuple):
            if total + len(pending) + len(current) > limit:
                return limit + 1
            pending += current
            if isinstance(current, dict):
                pending += current.values()
        if total > limit:
            break
    return total


def check_value(value: Any) -> None:
    """Check that a value is small enough to be written as text.

    Lists may share members, so a small value can stand for a gigantic text.

    Raises:
        Refused: The value is too large.
    """
    pending, size = [value], 0
    for _ in range(NODES):
        if not pending:
            break
        current = pending.pop()
        if isinstance(current, str):
            size += len(current)
        elif isinstance(current, dict | list | tuple):
            pending += current
            if isinstance(current, dict):
                pending += current.values()
            if len(pending) > NODES:
                break
    if pending or size > OUTPUT_BYTES:
        raise CapExceeded(f"a value is larger than {OUTPUT_BYTES // 1024} KiB or {NODES:,} nodes")
