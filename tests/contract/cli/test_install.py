"""The command is installed from a clone by uv, as README.md says."""

import os
import shutil
import subprocess
from pathlib import Path

from e2e.support import documents

ROOT = documents.ROOT


def uv_command_of_readme() -> str:
    (block,) = (it for it in documents.blocks(ROOT / "README.md") if "uv tool" in it.text)
    assert block.run_by.startswith("tests/contract/cli/test_install.py")
    return block.text


def test_uv_installs_the_command_from_a_clone(tmp_path: Path) -> None:
    uv = shutil.which("uv", path=f"{ROOT}/.uv/bin:{os.environ['PATH']}")  # noqa: TID251 - ours first
    assert uv, "make venv installs uv"
    pins = tmp_path / "constraints.txt"
    export = [uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes"]
    export += ["--extra", "cli", "--output-file", str(pins)]
    subprocess.run(export, cwd=ROOT, check=True, capture_output=True)
    environment = {
        **os.environ,  # noqa: TID251 - a shell of its own
        "PATH": f"{Path(uv).parent}:{os.environ['PATH']}",  # noqa: TID251 - as above
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_CONSTRAINT": str(pins),
    }
    installed = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", uv_command_of_readme()],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    for arguments, output in ((["--version"], "kais "), (["blueprint", "--help"], "Usage")):
        command = [tmp_path / "bin/kais", *arguments]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert output in shown.stdout
