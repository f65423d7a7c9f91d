"""Dry runs: a write runs completely, its result is returned, and the store rolls it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

Argument = TypeVar("Argument")
T = TypeVar("T")


class DryRunRollback(Exception, Generic[T]):
    """Ends a write so that the store rolls it back; `answer` is the write's result."""

    def __init__(self, answer: T) -> None:
        super().__init__("dry run")
        self.answer = answer


def roll_back_after(operation: Callable[[Argument], T]) -> Callable[[Argument], NoReturn]:
    """Return a write that ends with `DryRunRollback` unless the operation itself fails."""

    def run(argument: Argument) -> NoReturn:
        raise DryRunRollback(operation(argument))

    return run
