"""What a kind gives the queue: how it is observed and how it is decided.

`handlers` runs every kind the same way: observe -> decide -> apply -> status. A kind is one
`Reconciler`.
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
    """One observation: the object's body as read, and whatever its decision needs besides."""

    body: Body | None
    observed: Any


@dataclass(frozen=True)
class Controller:
    """One kind: `observe` reads, `decide` is pure; `observe` gives None for nothing to do."""

    kind: str
    observe: Callable[[World, ObjectRef], Awaitable[Observation | None]]
    decide: Callable[[Any, datetime], Plan]
