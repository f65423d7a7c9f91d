"""Untrusted files are read, matched, compiled and rendered in a process that can be killed.

A pattern in such a file may never end, and its content may exhaust the memory. The process has
512 MiB, and 10 s per answer; it reads one request as JSON and writes each answer on a line.
`python -m kais_cli.template_process` is that process.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any, cast

from kais import parameters as rules
from kais.errors import Violation
from kais.resources.blueprint import Parameter
from kais_cli import errors

if TYPE_CHECKING:
    from pathlib import Path

    from kais.blueprints import CompileReport, Rendering
    from kais.impacts import Impact
    from kais_cli.ports import Body

_SECONDS = 10
_BYTES = 512 * 1024 * 1024


def compile_spec(spec: Mapping[str, Any], *, subject: str) -> CompileReport:
    """Compile a blueprint's spec.

    Raises:
        UsageError: it took too long or too much memory; the message names the leaf.
    """
    from kais import blueprints  # noqa: PLC0415 (loads jinja2)

    (answer,) = _ask({"compile": dict(spec)}, [subject])
    return blueprints.CompileReport.from_dict(answer)


def render(spec: Mapping[str, Any], names: Mapping[str, Any], *, subject: str) -> Rendering:
    """Render a spec; `names` are the arguments of `kais.blueprints.render_blueprint`.

    Raises:
        UsageError: it took too long or too much memory; the message names the leaf.
    """
    from kais import blueprints  # noqa: PLC0415 (loads jinja2)

    (answer,) = _ask({"render": dict(spec), "names": dict(names)}, [subject])
    return blueprints.read_rendering(answer)


def impacts(
    spec: Mapping[str, Any], uses: Sequence[Body], *, revisions: Mapping[str, Body], subject: str
) -> Iterator[Impact]:
    """Say what a spec would change in each use, one after the other, all in one process.

    `revisions` are those that the uses stand on, by the use's name.

    Raises:
        UsageError: one took too long or too much memory; the message names it and the leaf.
    """
    from kais.impacts import Impact  # noqa: PLC0415 (loads jinja2)

    subjects = [f"{subject}, for {use['metadata']['name']}," for use in uses]
    kept = {body["metadata"]["name"]: body for body in revisions.values()}
    stands_on = {use: body["metadata"]["name"] for use, body in revisions.items()}
    request = {
        "impacts": dict(spec), "uses": list(uses), "revisions": kept, "stands_on": stands_on,
    }  # fmt: skip
    for answer in _ask(request, subjects):
        yield Impact.from_dict(answer)


def violations_of(
    parameters: Sequence[Parameter], given: Mapping[str, Any], *, subject: str
) -> tuple[Violation, ...]:
    """Check what a use gives for parameters, their patterns included.

    Raises:
        UsageError: a pattern took too long; the message names the parameter.
    """
    declared = [parameter.to_dict() for parameter in parameters]
    request = {"resolve": declared, "given": dict(given)}
    (answer,) = _ask(request, [subject], hint="fix its pattern")
    return tuple(Violation(**violation) for violation in answer["violations"])


def read_yaml(file: Path, *, subject: str) -> list[Any]:
    """Read all documents of a YAML or JSON file.

    Raises:
        UsageError: it cannot be read, is no YAML, or takes too long, too much memory or too many
            values; the message names it and the limit.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.UsageError(f"cannot read {subject}: {exc}") from exc
    (answer,) = _ask({"yaml": text}, [f"reading {subject}"], hint="make the file simpler")
    if "refused" in answer:
        raise errors.UsageError(f"cannot read {subject}: {answer['refused']}")
    return list(answer["documents"])


def _ask(
    request: Mapping[str, Any], subjects: Sequence[str], *, hint: str = "make that leaf simpler"
) -> Iterator[dict[str, Any]]:
    """Give one answer for each subject; `hint` says what to do about one that takes too much."""
    with tempfile.TemporaryFile("w+") as told, _started(told) as process:
        try:
            _write(process, request)
            for subject in subjects:
                yield _answer(process, told, subject, hint)
        finally:
            process.kill()


def _started(told: IO[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kais_cli.template_process"]
    pipe = subprocess.PIPE
    return subprocess.Popen(  # noqa: S603 - our own module, by argument list
        command, stdin=pipe, stdout=pipe, stderr=told, text=True
    )


def _write(process: subprocess.Popen[str], request: Mapping[str, Any]) -> None:
    stream = cast("IO[str]", process.stdin)
    with contextlib.suppress(BrokenPipeError):  # it ended; the missing answer is told
        stream.write(json.dumps(request))
        stream.close()


def _answer(
    process: subprocess.Popen[str], told: IO[str], subject: str, hint: str
) -> dict[str, Any]:
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    limit = threading.Timer(_SECONDS, end)
    limit.start()
    try:
        line = cast("IO[str]", process.stdout).readline()
    finally:
        limit.cancel()
    try:
        return dict(json.loads(line))
    except ValueError:
        why = f"needs more than {_BYTES // 1024 // 1024} MiB, or broke its process"
        why = f"took more than {_SECONDS} s" if late.is_set() else why
        process.wait()
        told.seek(0)
        raise errors.UsageError(f"{_ended(subject, told.read(), why)}; {hint}") from None


def _ended(subject: str, told: str, why: str) -> str:
    """Name the last leaf that was begun; each is told on a line of its own."""
    leaves = [line for line in told.splitlines() if line.startswith("at ")]
    where = f", at {leaves[-1].removeprefix('at ')}" if leaves else ""
    return f"{subject} {why}{where}"


def _serve() -> None:
    """Answer the one request on stdin."""
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    for answer in _answers(json.load(sys.stdin)):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from kais import blueprints  # noqa: PLC0415 (loads jinja2)

    if "yaml" in request:
        yield _documents(request["yaml"])
    elif "resolve" in request:
        yield _violations(request)
    elif "compile" in request:
        yield blueprints.compile_blueprint(request["compile"], progress=_tell).to_dict()
    elif "render" in request:
        names = request["names"]
        values = names.pop("parameters")
        found = blueprints.render_blueprint(request["render"], values, **names, progress=_tell)
        yield found.to_dict()
    else:
        yield from _impacts(request)


def _documents(text: str) -> dict[str, Any]:
    from kais_rendering import yaml_documents  # noqa: PLC0415 (loads yaml)

    try:
        return {"documents": yaml_documents.read(text)}
    except yaml_documents.YamlRefused as exc:
        return {"refused": str(exc)}


def _violations(request: dict[str, Any]) -> dict[str, Any]:
    parameters = [Parameter.from_dict(body) for body in request["resolve"]]
    resolved = rules.resolve(parameters, request["given"], told=_tell)
    return {"violations": [asdict(violation) for violation in resolved.violations]}


def _impacts(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from kais import impacts as impacts_  # noqa: PLC0415 (loads jinja2)
    from kais.resources.blueprint_instance import BlueprintInstance  # noqa: PLC0415
    from kais.resources.blueprint_revision import BlueprintRevision  # noqa: PLC0415

    revisions = {n: BlueprintRevision.from_dict(b) for n, b in request["revisions"].items()}
    for body in request["uses"]:
        use = BlueprintInstance.from_dict(body)
        present = revisions[request["stands_on"][use.metadata.name]]
        found = impacts_.of_template(request["impacts"], use, present=present, progress=_tell)
        yield found.to_dict()


def _tell(leaf: str) -> None:
    sys.stderr.write(f"at {leaf}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    _serve()
