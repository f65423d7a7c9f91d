"""Serves the tools of one person, and turns errors of commands into errors of tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kais.errors import InvalidResource
from kais_cli import errors
from kais_cli.error_messages import failures, knowledge_service
from kais_cli.mcp.person_knowledge import PersonKnowledge
from kais_mcp.failures import ToolFailure
from kais_mcp.tools import QuotaName, Tool
from knowledge_client.error_codes import ErrorCode
from knowledge_client.errors import KnowledgeError
from knowledge_client.models import Problem

T = TypeVar("T")
_CODES: tuple[tuple[type[errors.CliError], str], ...] = (
    (errors.UsageError, ErrorCode.INVALID_BODY),
    (errors.Unreachable, ErrorCode.STORE_UNAVAILABLE),
)
_REFUSED = "refused"


@dataclass(frozen=True)
class PersonHost:
    """The `Host` of a command; the service charges the quotas of the person."""

    backend: PersonKnowledge
    tools_by_name: Mapping[str, Tool]

    def tools(self, request: Any) -> Mapping[str, Tool]:
        """Return the tools that the options chose."""
        del request  # there is one client
        return self.tools_by_name

    async def run(
        self,
        request: Any,
        cost: Mapping[QuotaName, int],
        call: Callable[[Any], Awaitable[T]],
    ) -> T:
        """Call as the person.

        Raises:
            ToolFailure: the service or the cluster refused the call, or an object of the cluster
                cannot be read.
        """
        del request, cost
        try:
            return await call(self.backend)
        except KnowledgeError as exc:
            raise ToolFailure(self._problem_of(exc), exc.retry_after_s) from exc
        except errors.CliError as exc:
            code = next((code for kind, code in _CODES if isinstance(exc, kind)), _REFUSED)
            raise ToolFailure(_problem(code, str(exc))) from exc
        except InvalidResource as exc:
            raise ToolFailure(_problem(_REFUSED, str(failures.explain(exc)))) from exc

    def _problem_of(self, exc: KnowledgeError) -> Problem:
        if exc.problem is not None:
            return exc.problem
        session = self.backend.session
        explained = knowledge_service.translate(
            exc,
            namespace=session.chosen_namespace or "",
            url=session.environment.settings.knowledge_url,
        )
        return _problem(ErrorCode.STORE_UNAVAILABLE, str(explained))


def _problem(code: str, detail: str) -> Problem:
    return Problem(title="Call failed", status=0, code=code, detail=detail)
