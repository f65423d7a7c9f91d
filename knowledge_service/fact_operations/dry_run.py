"""A write that is done whole and then not kept: what would be answered, without doing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

Given = TypeVar("Given")
T = TypeVar("T")


class DryRunRollback(Exception, Generic[T]):
    """Ends a write, so that the store takes all of it back; carries its answer out."""

    def __init__(self, answer: T) -> None:
        super().__init__("dry run")
        self.answer = answer


def rolled_back(work: Callable[[Given], T]) -> Callable[[Given], NoReturn]:
    """Make a write that always ends with `DryRunRollback`, unless it is refused."""

    def run(given: Given) -> NoReturn:
        raise DryRunRollback(work(given))

    return run
