"""The image of minds has what its runtimes import, with its bytecode, and no other program."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_runtime import image_files

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def files() -> set[str]:
    """The files, as a process of its own finds them, relative to the packages."""
    program = "from agent_runtime import image_files as i; print(*i.imported_files(), sep='\\n')"
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


def test_packages_that_the_image_removes_are_imported_by_no_runtime(files: set[str]) -> None:
    text = (ROOT / "agent_runtime/Dockerfile").read_text().replace("\\\n", " ")
    (removed,) = re.findall(r"pip uninstall --yes ([^&]*)", text)
    imported = {"/".join(Path(path).parts[:2]) for path in files} | {
        Path(path).parts[0] for path in files
    }
    packages = {name.replace("google-", "google/").replace("-", "_") for name in removed.split()}

    assert {"tiktoken", "google/auth", "pyasn1_modules"} <= packages
    assert not packages & imported


def test_programs_of_kais_that_a_cell_does_not_run_are_removed_with_their_packages(
    tmp_path: Path,
) -> None:
    info = tmp_path / "kais-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kais\nVersion: 1\n")
    (info / "RECORD").write_text(
        "agent_runtime/__init__.py,,\nkais_operator/__init__.py,,\nkais_operator/a/b.py,,\n"
        "../../../bin/kais-agent,,\n../../../bin/kais-operator,,\nkais-1.dist-info/RECORD,,\n"
    )
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nkais-agent = agent_runtime.__main__:main\n"
        "kais-operator = kais_operator.__main__:main\n"
    )

    paths = image_files.unused_paths(
        importlib.metadata.PathDistribution(info), {"agent_runtime", "agent_runtime.task"}
    )

    assert paths == [tmp_path / "kais_operator", Path(sys.executable).parent / "kais-operator"]
