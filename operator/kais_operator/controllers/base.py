"""The interface of a kind: how it is observed and how it is decided.

The reconciler runs every kind in the same way: observe -> decide -> apply -> status. Each kind has
one `Controller`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kais_operator.planning.plan import Body, ObjectRef, Plan
from kais_operator.ports import World


@dataclass(frozen=True)
class Observation:
    """One observation: the object's body as read, and the input of its decision."""

    body: Body | None
    observed: Any


@dataclass(frozen=True)
class Controller:
    """The controller of one kind.

    `observe` reads and returns None when there is nothing to do; `decide` is pure.
    """

    kind: str
    observe: Callable[[World, ObjectRef], Awaitable[Observation | None]]
    decide: Callable[[Any, datetime], Plan]
