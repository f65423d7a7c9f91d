"""`kais-agent`: runs the mind of the cell in whose pod it is.

The exit status says whether another attempt makes sense: 0 an answer, 1 failed, 75 try again, 78
the spec or the environment is invalid.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from agent_runtime import logging_config, mind, result_files, settings, telemetry
from agent_runtime.assembly import Connections
from agent_runtime.errors import AgentError
from agent_runtime.mind import MindConfig
from agent_runtime.model_http import ModelKey
from agent_runtime.settings import Settings
from agent_runtime.task import Attempt
from agent_runtime.telemetry import Traces
from kais.agent_results import (
    EXIT_ANSWERED,
    AgentFailure,
    AgentResult,
    FailureClass,
)
from kais.resources.cell_template import CellMode
from knowledge_client import errors
from knowledge_client import settings as run_settings

_RESULT_BYTES = 2048
_log = logging.getLogger(__name__)


def main() -> int:
    """Run the attempt of this pod, and return the exit status."""
    try:
        configured = settings.from_environment()
    except AgentError as exc:
        return _finish_invalid(exc)
    return asyncio.run(_run(configured))


async def _run(configured: Settings) -> int:
    key = ModelKey(configured.key_file)
    logging_config.configure(configured.log_level, key)
    try:
        run = run_settings.from_environment()
    except errors.InvalidRequest as exc:
        return _finish_invalid(AgentError(FailureClass.INVALID_CONFIGURATION, str(exc)))
    try:
        config = mind.load(configured)
    except AgentError as exc:
        return _finish_invalid(exc)
    traces = _start_traces(configured, key)
    try:
        connections = Connections(traces=traces)
        if config.mode is CellMode.SERVICE:
            return await _serve(configured, config, run, key, connections)
        return await _attempt(configured, run, key, connections)
    finally:
        if traces is not None:
            traces.close()


def _start_traces(configured: Settings, key: ModelKey) -> Traces | None:
    if not configured.has_traces:
        return None
    return telemetry.start(configured.cell, key.mask, has_content=configured.has_trace_content)


async def _attempt(
    configured: Settings, run: run_settings.Settings, key: ModelKey, connections: Connections
) -> int:
    """Run one attempt, and write its result."""
    attempt = Attempt(configured, run, key, connections)
    work = asyncio.create_task(attempt.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        result = await work
    except asyncio.CancelledError:
        message = "the pod was stopped while the mind worked"
        result = attempt.result(failure=AgentFailure(FailureClass.INTERRUPTED, message))
    except Exception as exc:  # noqa: BLE001 - a result says more than a traceback
        _log.exception("the agent runtime has a defect")
        message = f"the agent runtime failed with {type(exc).__name__}; its log has the details"
        result = attempt.result(failure=AgentFailure(FailureClass.INTERRUPTED, message))
    attempt.close()
    return _finish(result, configured)


async def _serve(
    configured: Settings,
    config: MindConfig,
    run: run_settings.Settings,
    key: ModelKey,
    connections: Connections,
) -> int:
    """Serve A2A until the pod is stopped."""
    from agent_runtime.service import server  # noqa: PLC0415 - the pod of a task needs no web server

    try:
        return await server.serve(
            configured, config, key, token_file=run.token_file, connections=connections
        )
    except AgentError as exc:
        return _finish_invalid(exc)


def _finish(result: AgentResult, configured: Settings) -> int:
    result_files.write_result(
        result, configured.termination_file, limit_bytes=configured.result_bytes
    )
    usage = result.usage
    _log.info(
        "%s: %d turns, %d tool calls, %d tokens in, %d out, $%s",
        result.failure.reason if result.failure else "answered",
        usage.turns,
        usage.tool_calls,
        usage.input_tokens,
        usage.output_tokens,
        usage.cost,
    )
    if result.failure is None:
        return EXIT_ANSWERED
    _log.error("%s", result.failure.message)
    return result.failure.reason.exit_status


def _finish_invalid(error: AgentError) -> int:
    result = AgentResult(failure=error.failure)
    result_files.write_result(result, settings.result_file(), limit_bytes=_RESULT_BYTES)
    sys.stderr.write(f"error: {error}\n")
    return error.failure.reason.exit_status


if __name__ == "__main__":
    sys.exit(main())
