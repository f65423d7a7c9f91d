"""Errors of the operator.

    OperatorError
    ├── NotReady            look again after `requeue_after_s`; nothing is wrong
    │   └── RenderingPending    a template is being rendered; look again when it is
    ├── NotLeading          the Lease is lost: stop writing, stand for election
    ├── RenderingFailed     the render worker passed a cap or died
    ├── RendererUnavailable  the renderer does not answer; no template is to blame
    └── ClusterError        the API server said no, or nothing
        ├── AlreadyExists   a create met an object of that name
        ├── Conflict        the object is another one than decided upon (UID, resourceVersion)
        │   └── Expired     a list or watch goes on from a version that is too old
        ├── NotFound        the object, its kind or its namespace is missing
        ├── NamespaceTerminating  nothing can be created there any more
        ├── Forbidden       RBAC or a quota refuses
        ├── Invalid         the schema refuses
        └── ClusterUnavailable    no answer, or 429 and 5xx

A user's mistake is never an error here: decisions turn it into a condition.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal

_ANSWERED_S = 30.0  # longer than a rendering may take on the clock


class OperatorError(Exception):
    """Anything that the operator raises on purpose."""


class NotReady(OperatorError):
    """Look again later; `requeue_after_s` says when."""

    def __init__(self, reason: str, *, requeue_after_s: float) -> None:
        super().__init__(reason)
        self.requeue_after_s = requeue_after_s


class RenderingPending(NotReady):
    """A rendering takes longer than a pass may wait for it.

    Attributes:
        done: Ends when the answer is there to be asked for again.
    """

    def __init__(self, completion: asyncio.Future[Any]) -> None:
        super().__init__("a template is being rendered", requeue_after_s=_ANSWERED_S)
        self.completion = completion


class NotLeading(OperatorError):
    """The Lease is no longer ours."""


class RenderingFailed(OperatorError):
    """The render worker passed its time or memory cap, or died.

    Attributes:
        cap: "time" or "memory" when the template passed that limit; "worker" when the worker died
            twice over it, for a reason that it could not tell.
        retry_after_s: When another try is made; until then the same request fails at once.
    """

    def __init__(
        self,
        message: str,
        *,
        cap: Literal["time", "memory", "worker"],
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.cap = cap
        self.retry_after_s = retry_after_s


class RendererUnavailable(OperatorError):
    """The renderer does not answer, so nothing was rendered; look again later."""


class ClusterError(OperatorError):
    """The API server refused a call or did not answer."""


class AlreadyExists(ClusterError):
    """A create met an object of that name."""


class Conflict(ClusterError):
    """The object changed since it was decided upon."""


class Expired(Conflict):
    """The version to go on from is too old: read from the start again."""


class NotFound(ClusterError):
    """The object, its kind or its namespace is missing."""


class NamespaceTerminating(ClusterError):
    """The namespace is going away."""


class Forbidden(ClusterError):
    """RBAC or a quota refuses."""


class Invalid(ClusterError):
    """The API server's schema or validation refuses."""


class ClusterUnavailable(ClusterError):
    """No answer, or one that says to try later."""


def log_level(exc: BaseException, *, otherwise: int = logging.WARNING) -> int:
    """Choose the level at which a failure is logged: ERROR for an unexpected refusal.

    Other failures pass by themselves. A refused right, quota or admission waits for a person.
    A namespace that is being deleted refuses new objects; that is no failure.
    """
    causes = (exc, exc.__cause__)
    if any(isinstance(error, NamespaceTerminating) for error in causes):
        return logging.INFO
    return logging.ERROR if any(isinstance(error, Forbidden) for error in causes) else otherwise
