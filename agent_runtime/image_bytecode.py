"""Writes the bytecode of what a runtime imports, while its image is built.

Bytecode of all packages would take as much space as this and 30 MB more: the SDKs have thousands
of modules that no cell imports. Without any, the pod of each attempt compiles for seconds.
"""

from __future__ import annotations

import importlib
import pkgutil
import py_compile
import sys

import httpx2

import agent_runtime
from agent_runtime.agent import connection
from agent_runtime.mind import MindConfig
from kais.resources.cell_template import CellMode, Provider

_IMPORTED_LATER = (
    "anthropic.resources.beta.messages",
    "anyio._backends._asyncio",
    "anyio._core._sockets",
    "certifi",
    "httpcore",
    "openai.resources.chat.completions",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.utils",
)
"""The modules that a runtime imports when it serves, with its first call and its first trace."""


def imported_files() -> list[str]:
    """Import what runtimes of any provider import; return the source files of all packages."""
    for module in pkgutil.walk_packages(agent_runtime.__path__, "agent_runtime."):
        importlib.import_module(module.name)
    for provider in Provider:
        mind = MindConfig(
            provider=provider,
            model="none",
            prompt="",
            mode=CellMode.SERVICE,
            base_url="http://localhost",
        )
        connection.connect(mind, httpx2.AsyncClient())
    for name in _IMPORTED_LATER:
        importlib.import_module(name)
    paths = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    return [path for path in paths if path.startswith(sys.prefix) and path.endswith(".py")]


def main() -> None:
    """Write the bytecode, without a look at the times of files when it is read."""
    for path in imported_files():
        py_compile.compile(
            path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )


if __name__ == "__main__":
    main()
