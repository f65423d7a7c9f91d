"""Templates are compiled and rendered in a process of their own, which can be ended.

A file of somebody else's may hold a loop or a pattern that never ends, or ask for all memory. The
process has 10 s and 512 MiB; it reads one request as JSON and writes one answer. `python -m
kais_cli.template_process` is that process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kais_cli import errors

if TYPE_CHECKING:
    from kais.blueprints import CompileReport, Rendering

_SECONDS = 10
_BYTES = 512 * 1024 * 1024


def compile_spec(spec: Mapping[str, Any], *, subject: str) -> CompileReport:
    """Compile a blueprint's spec.

    Raises:
        UsageError: it took too long or too much memory; the message names the leaf.
    """
    from kais import blueprints  # noqa: PLC0415 (loads jinja2)

    return blueprints.CompileReport.from_dict(_ask({"compile": dict(spec)}, subject))


def render(spec: Mapping[str, Any], names: Mapping[str, Any], *, subject: str) -> Rendering:
    """Render a spec; `names` are the arguments of `kais.blueprints.render_blueprint`.

    Raises:
        UsageError: it took too long or too much memory; the message names the leaf.
    """
    from kais import blueprints  # noqa: PLC0415 (loads jinja2)

    answer = _ask({"render": dict(spec), "names": dict(names)}, subject)
    return blueprints.read_rendering(answer)


def _ask(request: Mapping[str, Any], subject: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "kais_cli.template_process"]
    process = subprocess.Popen(  # noqa: S603 - our own module, by argument list
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, told = process.communicate(json.dumps(request), timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, told = process.communicate()
        raise errors.UsageError(_ended(subject, told, f"took more than {_SECONDS} s")) from None
    finally:
        process.kill()
        process.wait()
    try:
        return dict(json.loads(out))
    except ValueError:
        limit = f"needs more than {_BYTES // 1024 // 1024} MiB, or broke its process"
        raise errors.UsageError(_ended(subject, told, limit)) from None


def _ended(subject: str, told: str, why: str) -> str:
    """Name the last leaf that was begun; each is told on a line of its own."""
    leaves = [line for line in told.splitlines() if line.startswith("at ")]
    where = leaves[-1].removeprefix("at ") if leaves else "before its first leaf"
    return f"{subject} {why}, at {where}; make that leaf simpler"


def _serve() -> None:
    """Answer the one request on stdin."""
    from kais import blueprints  # noqa: PLC0415 (loads jinja2)

    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    request = json.load(sys.stdin)

    def progress(leaf: str) -> None:
        sys.stderr.write(f"at {leaf}\n")

    if "compile" in request:
        answer = blueprints.compile_blueprint(request["compile"], progress=progress).to_dict()
    else:
        names = request["names"]
        values = names.pop("parameters")
        answer = blueprints.render_blueprint(
            request["render"], values, **names, progress=progress
        ).to_dict()
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _serve()
