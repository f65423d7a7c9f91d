"""The image of minds has bytecode of what its runtimes import, and of nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def files() -> set[str]:
    """The files, as a process of its own finds them, relative to the packages."""
    program = "from agent_runtime import image_bytecode as i; print(*i.imported_files(), sep='\\n')"
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return {path.partition("site-packages/")[2] for path in completed.stdout.splitlines()}


@pytest.mark.parametrize(
    "path",
    [
        "anthropic/resources/beta/messages/messages.py",
        "openai/resources/chat/completions/completions.py",
        "pydantic_ai/models/ollama.py",
        "a2a/server/request_handlers/default_request_handler.py",
        "opentelemetry/exporter/otlp/proto/http/trace_exporter/__init__.py",
        "mcp/client/streamable_http.py",
        "uvicorn/lifespan/on.py",
        "httpcore/_async/connection_pool.py",
    ],
)
def test_what_a_runtime_imports_is_compiled(files: set[str], path: str) -> None:
    assert path in files


def test_what_no_runtime_imports_is_not_compiled(files: set[str]) -> None:
    packages = {Path(path).parts[0] for path in files}
    assert not packages & {"knowledge_service", "kais_operator", "kais_cli", "typer", "tiktoken"}
