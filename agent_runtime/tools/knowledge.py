"""The knowledge tools of a mind: recall, remember and correct facts with the cell's own token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field

from agent_runtime import journal, prompt
from agent_runtime.errors import ToolError
from agent_runtime.prompt import Framing, Knowledge, KnowledgeFact
from kais.agent_tools import AgentTool
from kais.scopes import Scope
from knowledge_client import AsyncKnowledgeClient, errors, models

RESULTS: Final = 10
_CONFIDENCE: Final = 0.7
_Response = TypeVar("_Response")
RecallScope = Literal["mine", "team", "project", "all"]


@dataclass(frozen=True, kw_only=True)
class KnowledgeTools:
    """The tools of one attempt.

    Attributes:
        home: scope of the cell.
        refs: what remembered facts come from, such as the run.
        ticket: the ticket under which the cell was called.
    """

    client: AsyncKnowledgeClient
    framing: Framing
    home: Scope
    run_id: str | None
    attempt: int | None
    refs: tuple[models.Ref, ...] = ()
    ticket: str | None = None

    def tools(self) -> dict[AgentTool, Callable[..., Any]]:
        """Return the tools by their names."""
        return {
            AgentTool.RECALL: self.recall,
            AgentTool.REMEMBER: self.remember,
            AgentTool.CORRECT: self.correct,
        }

    async def recall(self, query: str, scope: RecallScope = "all") -> str:
        """Find facts from earlier runs, best matches first.

        Args:
            query: A few words or a question.
            scope: mine: facts of this agent; team: also those of its team; project: also those of
                its project; all: everything that this agent may read.
        """
        question = models.RecallIn(
            query=_bounded(query, 8192, "query"),
            limit=RESULTS,
            scopes=tuple(str(path) for path in _scopes(self.home, scope)),
            run=self.run_id,
            attempt=self.attempt,
            ticket=self.ticket,
        )
        recalled = await self._call(self.client.recall(question))
        if recalled.reasons:
            return f"no facts: {'; '.join(recalled.reasons)}"
        if not recalled.facts:
            return "no facts match"
        facts = tuple(recalled_fact(fact) for fact in recalled.facts)
        return prompt.knowledge_frame(Knowledge(recalled.receipt, facts), self.framing)

    async def remember(
        self,
        fact: str,
        tags: Annotated[list[str], Field(max_length=32)] | None = None,
        confidence: Annotated[float, Field(ge=0, le=1)] = _CONFIDENCE,
        mine: bool = False,
    ) -> str:
        """Store one fact for later runs of the team.

        Args:
            fact: One statement that is understandable without this conversation.
            tags: Keywords.
            confidence: How sure you are, from 0 to 1.
            mine: Store it for this agent alone.
        """
        stored = await self._call(
            self.client.remember(
                models.FactIn(
                    content=_bounded(fact, 8192, "fact"),
                    scope="mine" if mine else None,
                    tags=tuple(tag[:64] for tag in tags or () if tag.strip()),
                    confidence=confidence,
                    source=models.Source(type="explicit_remember", refs=self.refs),
                    run=self.run_id,
                    attempt=self.attempt,
                ),
                idempotency_key=journal.call_id(),
            )
        )
        return f"{stored.status}: {stored.fact_id}"

    async def correct(self, fact_id: str, reason: str) -> str:
        """Close a fact that is wrong or outdated, so that it is not recalled again.

        Args:
            fact_id: The id of the fact.
            reason: Why it is wrong; the reason is stored with the fact.
        """
        change = models.CorrectIn(reason=_bounded(reason, 2000, "reason"))
        closed = await self._call(
            self.client.correct(fact_id, change, idempotency_key=journal.call_id())
        )
        return f"closed: {closed.fact_id}"

    async def _call(self, call: Awaitable[_Response]) -> _Response:
        try:
            return await call
        except errors.KnowledgeError as exc:
            raise ToolError(str(exc)) from exc


def _bounded(text: str, limit: int, name: str) -> str:
    if not text.strip():
        raise ToolError(f"{name} is empty")
    if len(text) > limit:
        raise ToolError(f"{name} has {len(text)} characters, and the maximum is {limit}")
    return text


def _scopes(home: Scope, scope: RecallScope) -> tuple[Scope, ...]:
    """Return the scopes of a range; an empty result means all that the cell may read."""
    path = (home, *home.ancestors())
    team = tuple(part for part in path if part.cell or part.formation)
    match scope:
        case "mine":
            return (home,)
        case "team":
            return team or (home,)
        case "project":
            return tuple(part for part in path if part.realm)
        case "all":
            return ()


def recalled_fact(fact: models.RecalledFact) -> KnowledgeFact:
    """Return a fact as a mind reads it."""
    return KnowledgeFact(
        id=fact.id,
        content=fact.content,
        scope=fact.scope,
        date=fact.recorded_at.date().isoformat(),
        source=fact.source.type,
        confidence=f"{fact.confidence:.2f}",
    )
