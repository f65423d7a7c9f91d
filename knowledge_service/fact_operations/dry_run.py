"""A write that is done whole and then not kept: what would be answered, without doing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

Argument = TypeVar("Argument")
T = TypeVar("T")


class DryRunRollback(Exception, Generic[T]):
    """Ends a write, so that the store takes all of it back; carries its answer out."""

    def __init__(self, answer: T) -> None:
        super().__init__("dry run")
        self.answer = answer


def roll_back_after(operation: Callable[[Argument], T]) -> Callable[[Argument], NoReturn]:
    """Make a write that always ends with `DryRunRollback`, unless it is refused."""

    def run(argument: Argument) -> NoReturn:
        raise DryRunRollback(operation(argument))

    return run
