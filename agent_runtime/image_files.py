"""Removes what no runtime imports from its image, and compiles the rest, while the image is built.

The wheel of kais contains all of its programs, and the pod of a cell needs one. The bytecode of all
packages would take 30 MB more, because the SDKs have thousands of modules that no cell imports.
Without any bytecode, the pod of each attempt would compile for seconds.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import py_compile
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

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


def unused_paths(
    distribution: importlib.metadata.Distribution, imported: Collection[str]
) -> list[Path]:
    """Return the packages of a distribution outside `imported`, and the programs that start them.

    Modules that stand alone are not listed. Programs are those beside this interpreter.
    """
    tops = {path.parts[0] for path in distribution.files or () if len(path.parts) > 1}
    packages = sorted(top for top in tops - set(imported) if top.isidentifier())
    scripts = sorted(
        script.name
        for script in distribution.entry_points.select(group="console_scripts")
        if script.module.partition(".")[0] in packages
    )
    return [
        *(Path(str(distribution.locate_file(name))) for name in packages),
        *(Path(sys.executable).parent / name for name in scripts),
    ]


def main() -> None:
    """Remove unused packages of kais, then write bytecode that is valid whatever a file's time."""
    files = imported_files()
    for path in unused_paths(importlib.metadata.distribution("kais"), sys.modules):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for file in files:
        py_compile.compile(
            file, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )


if __name__ == "__main__":
    main()
