"""The tool that asks another cell of the team, along the topology.

The callee verifies the ticket too, so the topology holds on both sides. The answer is data.
"""

from __future__ import annotations

import asyncio
import functools
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal, localcontext
from pathlib import Path
from typing import Any, Final, Protocol

from agent_runtime import journal
from agent_runtime.errors import ToolError
from agent_runtime.money.meter import Meter
from agent_runtime.prompt import PEER_TAG, Framing
from kais import topology_files
from kais.agent_results import AgentFailure, AgentUsage
from kais.agent_tools import AgentTool
from knowledge_client import errors, models

QUESTION_CHARACTERS: Final = 32_768
ANSWER_CHARACTERS: Final = 32_768
_ERROR_CHARACTERS: Final = 500
_FILE_BYTES: Final = 2 * 1024 * 1024
_RULE_FILE: Final = "topology.json"
_BUDGET_UNIT: Final = Decimal("1e-12")
_BUDGET_DIGITS: Final = 60


@dataclass(frozen=True, kw_only=True)
class PeerAnswer:
    """The answer of a peer, or the reason why there is none."""

    text: str = ""
    failure: AgentFailure | None = None


class PeerUnavailable(Exception):
    """The peer cannot be reached, or violates the protocol."""


Tickets = Callable[[], Awaitable[str]]
"""Gets a ticket for the peer, which lives for a minute."""
UsageReport = Callable[[Mapping[str, AgentUsage]], None]
"""Stores what the peer and the cells that it asked have used so far, by their names.

It replaces what was reported about the same question before.
"""


class PeerCalls(Protocol):
    """Sends a message to a peer, and waits for its answer."""

    async def ask(
        self, cell: str, question: str, *, message: str, tickets: Tickets, report: UsageReport
    ) -> PeerAnswer:
        """Return the answer to a message; a repeated message gets the answer of the first one.

        The usage is reported while the peer works, and also when it stops without an answer.

        Raises:
            PeerUnavailable: There is no answer.
        """


class TicketIssuer(Protocol):
    """The part of the knowledge client that issues tickets."""

    def issue_ticket(self, call: models.TicketIn) -> Awaitable[models.Ticket]:
        """Get a ticket for a call to a cell."""


@dataclass(frozen=True, kw_only=True)
class PeerTool:
    """The tool of one task.

    Attributes:
        cell: the cell that asks.
        file: `routes.json` of the formation; None without a formation.
        ticket: the ticket with which the cell itself was called; None in mode Task, where `run_id`
            and `attempt` identify the work.
        save_usage: stores what cells have used for a message, in place of what was stored before,
            and counts it for the run.
    """

    cell: str
    file: Path | None
    ticket: str | None
    issuer: TicketIssuer
    calls: PeerCalls
    framing: Framing
    meter: Meter
    save_usage: Callable[[str, Mapping[str, AgentUsage]], None]
    run_id: str | None = None
    attempt: int = 1
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> dict[AgentTool, Callable[..., Any]]:
        """Return the tool by its name."""
        return {AgentTool.ASK_PEER: self.ask_peer}

    async def ask_peer(self, peer: str, question: str) -> str:
        """Put a question to another agent of your team, and wait for its answer.

        Args:
            peer: Name of the agent, such as critic-0.
            question: The question, with all that is needed to answer it.
        """
        if not question.strip() or len(question) > QUESTION_CHARACTERS:
            raise ToolError(f"a question needs 1 to {QUESTION_CHARACTERS} characters")
        peers = read_peers(self.file, self.cell)
        if peer not in peers:
            names = ", ".join(peers) or "none"
            raise ToolError(f"not-allowed: {peer!r} is no peer of yours; your peers: {names}")
        message = journal.call_id() or str(uuid.uuid4())
        async with self._turn:  # each question may cost all that the run has left
            return await self._ask(peer, question, message)

    async def _ask(self, peer: str, question: str, message: str) -> str:
        budget = _rounded(self.meter.remaining())
        if budget is not None and budget <= 0:
            raise ToolError("budget: the run has nothing left to ask a peer with")
        try:
            answer = await self.calls.ask(
                peer,
                question,
                message=message,
                tickets=lambda: self._issue(peer, budget),
                report=functools.partial(self.save_usage, message),
            )
        except PeerUnavailable as exc:
            raise ToolError(f"peer-unavailable: {self._frame(peer, str(exc))}") from exc
        if answer.failure is not None:
            reason, text = answer.failure.reason, _cut(answer.failure.message, _ERROR_CHARACTERS)
            raise ToolError(f"peer-failed: {reason}: {self._frame(peer, text)}")
        return self._frame(peer, _cut(answer.text, ANSWER_CHARACTERS))

    def _frame(self, peer: str, text: str) -> str:
        return self.framing.wrap(PEER_TAG, text, {"name": peer})

    async def _issue(self, peer: str, budget: Decimal | None) -> str:
        call = models.TicketIn(
            to=peer,
            ticket=self.ticket,
            run_id=self.run_id,
            attempt=self.attempt,
            budget_left=None if budget is None else _amount(budget),
        )
        try:
            issued = await self.issuer.issue_ticket(call)
        except errors.KnowledgeUnavailable as exc:
            raise ToolError(f"no-ticket: the knowledge service cannot be reached: {exc}") from exc
        except errors.KnowledgeError as exc:
            raise ToolError(f"{exc.code or 'not-allowed'}: {exc}") from exc
        return issued.ticket


def read_peers(file: Path | None, cell: str) -> tuple[str, ...]:
    """Return the peers of a cell; none if the files are missing or of another version."""
    if file is None:
        return ()
    routes = _read(file)
    if isinstance(routes, dict):
        peers = routes.get(cell, ())
        return tuple(sorted(str(peer) for peer in peers)) if isinstance(peers, list) else ()
    routing = topology_files.parse_rule(_read(file.with_name(_RULE_FILE)))
    return () if routing is None else routing.peers(cell)


def _read(file: Path) -> Any:
    try:
        with file.open("rb") as stream:
            return json.loads(stream.read(_FILE_BYTES))
    except (OSError, ValueError):
        return None


def _rounded(budget: Decimal | None) -> Decimal | None:
    """Round a budget down to the precision of tickets, so that it never exceeds what is left."""
    if budget is None:
        return None
    with localcontext(prec=_BUDGET_DIGITS):
        return budget.quantize(_BUDGET_UNIT, rounding=ROUND_DOWN)


def _amount(budget: Decimal) -> str:
    with localcontext(prec=_BUDGET_DIGITS):
        return format(budget.normalize(), "f")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[cut]"
