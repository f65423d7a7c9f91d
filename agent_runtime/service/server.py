"""The server of a cell in mode Service: its routes, and what starts and ends with it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvicorn
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from starlette.applications import Starlette
from starlette.middleware import Middleware

from agent_runtime import approval_rows, assembly, result_files
from agent_runtime.agent import connection
from agent_runtime.assembly import Connections
from agent_runtime.mind import MindConfig
from agent_runtime.model_http import ModelKey
from agent_runtime.service import approval_route, card
from agent_runtime.service.admission import Admission
from agent_runtime.service.calls import CallContextBuilder
from agent_runtime.service.executor import MindExecutor
from agent_runtime.service.mind_worker import MindWorker
from agent_runtime.service.request_handler import IdempotentRequestHandler
from agent_runtime.service.task_store import SqliteTaskStore
from agent_runtime.service.verifier import KnowledgeVerifier
from agent_runtime.settings import Settings
from agent_runtime.state import State
from agent_runtime.tickets import TicketVerifier
from kais import a2a
from kais.agent_results import (
    EXIT_ANSWERED,
    EXIT_FAILED,
    AgentFailure,
    AgentResult,
    FailureClass,
)
from knowledge_client import AsyncKnowledgeClient

_SHUTDOWN_S = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The parts of the server of a cell.

    Attributes:
        knowledge: client with the cell's own token, which the server closes.
    """

    settings: Settings
    config: MindConfig
    key: ModelKey
    connections: Connections
    verifier: TicketVerifier
    knowledge: AsyncKnowledgeClient | None = None


async def serve(
    settings: Settings,
    config: MindConfig,
    key: ModelKey,
    *,
    token_file: str | None,
    connections: Connections,
) -> int:
    """Serve a cell until the process is stopped, and return the exit status.

    Raises:
        AgentError: The cell cannot be served as it is configured.
    """
    client = None
    if settings.knowledge_url is not None:
        client = assembly.knowledge_client(
            settings.knowledge_url, token_file=token_file, connections=connections
        )
    cell = Cell(
        settings=settings,
        config=config,
        key=key,
        connections=connections,
        verifier=KnowledgeVerifier(client),
        knowledge=client,
    )
    web = uvicorn.Server(
        uvicorn.Config(
            create_app(cell),
            host="0.0.0.0",  # noqa: S104 - the network of the pod
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
        )
    )
    _log.info("serving cell %s with model %s", settings.cell, config.model)
    with contextlib.suppress(SystemExit):  # uvicorn raises it if the port is in use
        await web.serve()
    if web.started:
        return EXIT_ANSWERED
    message = f"cell {settings.cell} could not start its server; the log of its container says why"
    result_files.write_result(
        AgentResult(failure=AgentFailure(FailureClass.INTERRUPTED, message)),
        settings.termination_file,
        limit_bytes=settings.result_bytes,
    )
    return EXIT_FAILED


def create_app(cell: Cell) -> Starlette:
    """Return the application of a cell.

    Raises:
        AgentError: The model cannot be connected, or the state cannot be written.
    """
    settings, clock = cell.settings, cell.connections.clock
    client = assembly.model_client(cell.config, cell.key, cell.connections)
    state = State(settings.state / approval_rows.STATE_FILE)
    worker = MindWorker(
        settings=settings,
        config=cell.config,
        key=cell.key,
        model=connection.connect(cell.config, client),
        state=state,
        connections=cell.connections,
        knowledge=cell.knowledge,
    )
    agent_card = card.create_card(
        settings.cell, port=settings.port, is_idempotent=state.is_complete
    )
    executor = MindExecutor(worker, cell.key, clock)
    handler = IdempotentRequestHandler(
        agent_executor=executor,
        task_store=SqliteTaskStore(state),
        agent_card=agent_card,
    )
    handler.open_state(state, clock, executor.usage_metadata)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        async with AsyncExitStack() as stack:
            stack.callback(state.close)
            stack.callback(worker.close)
            await stack.enter_async_context(client)
            if cell.knowledge is not None:
                await stack.enter_async_context(cell.knowledge)
            stack.push_async_callback(handler.aclose)
            stack.callback(worker.stop)
            await handler.resume_tasks()
            yield

    contexts = CallContextBuilder()
    app = Starlette(
        routes=[
            *create_agent_card_routes(agent_card),
            approval_route.create_route(worker.approvals),
            *create_jsonrpc_routes(handler, a2a.RPC_PATH, context_builder=contexts),
            *create_rest_routes(handler, context_builder=contexts, path_prefix=a2a.REST_PATH),
        ],
        middleware=[Middleware(Admission, verifier=cell.verifier)],
        lifespan=lifespan,
    )
    app.state.cell_state = state
    return app
