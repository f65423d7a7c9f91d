"""Errors of the operator.

    OperatorError
    ├── NotReady            reconcile again after `requeue_after_s`; nothing is wrong
    │   └── RenderingPending    a template is being rendered; reconcile again when it is
    ├── NotLeading          the Lease is lost: stop writing
    ├── RenderingFailed     the render worker exceeded a limit or died
    ├── RendererUnavailable  the renderer does not answer; the template is not the reason
    └── ClusterError        the API server refused a call or did not answer
        ├── AlreadyExists   a create met an object of that name
        ├── Conflict        the object changed since the decision (UID, resourceVersion)
        │   └── Expired     the version of a continued list or watch is too old
        ├── NotFound        the object, its kind or its namespace does not exist
        ├── NamespaceTerminating  the namespace is being deleted and accepts no new objects
        ├── Forbidden       RBAC or a quota refuses
        ├── Invalid         the schema or validation refuses
        ├── TooDeep         the object nests too deeply to be read
        └── ClusterUnavailable    no answer, or 429 and 5xx
            ├── WriteFailed       the API server answered a write with 5xx
            └── PatchUnavailable  any of these for a patch that work waits for

A user's mistake is never an error here: decisions turn it into a condition.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal

_ANSWERED_S = 30.0  # longer than a rendering may take on the clock


class OperatorError(Exception):
    """Base class of the operator's errors."""


class NotReady(OperatorError):
    """Reconcile again after `requeue_after_s`."""

    def __init__(self, reason: str, *, requeue_after_s: float) -> None:
        super().__init__(reason)
        self.requeue_after_s = requeue_after_s


class RenderingPending(NotReady):
    """A rendering takes longer than a reconcile may wait for it.

    Attributes:
        completion: Ends when the result is available.
    """

    def __init__(self, completion: asyncio.Future[Any]) -> None:
        super().__init__("a template is being rendered", requeue_after_s=_ANSWERED_S)
        self.completion = completion


class NotLeading(OperatorError):
    """This process no longer holds the Lease."""


class RenderingFailed(OperatorError):
    """The render worker exceeded its time or memory limit, or died.

    Attributes:
        cap: "time" or "memory" if the template exceeded that limit; "worker" if two workers died
            for an unknown reason.
        retry_after_s: Until then the same request fails at once.
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
    """The renderer does not answer, so nothing was rendered."""


class ClusterError(OperatorError):
    """The API server refused a call or did not answer."""


class AlreadyExists(ClusterError):
    """A create met an object of that name."""


class Conflict(ClusterError):
    """The object changed since the decision."""


class Expired(Conflict):
    """The version of a continued list or watch is too old: start over."""


class NotFound(ClusterError):
    """The object, its kind or its namespace does not exist."""


class NamespaceTerminating(ClusterError):
    """The namespace is being deleted."""


class Forbidden(ClusterError):
    """RBAC or a quota refuses."""


class Invalid(ClusterError):
    """The API server's schema or validation refuses."""


class TooDeep(ClusterError):
    """The object nests too deeply to be read, until it is made shallower or deleted."""


class ClusterUnavailable(ClusterError):
    """No answer, or one that says to try later."""


class WriteFailed(ClusterUnavailable):
    """The API server answered a write with 5xx, as it does if an admission webhook is away."""


class PatchUnavailable(ClusterUnavailable):
    """A patch that work waits for failed, for any of these reasons."""


def log_level(exc: BaseException, *, otherwise: int = logging.WARNING) -> int:
    """Return the level at which an error is logged: ERROR if a person has to act.

    That is a missing permission, a quota or an admission webhook. Other errors are temporary, and a
    namespace that is being deleted refuses new objects as expected.
    """
    causes = (exc, exc.__cause__)
    if any(isinstance(error, NamespaceTerminating) for error in causes):
        return logging.INFO
    return logging.ERROR if any(isinstance(error, Forbidden) for error in causes) else otherwise
