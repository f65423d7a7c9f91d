"""Run the requests of commands in a render worker; an exceeded limit becomes a usage error.

Files, patterns and templates are untrusted: a pattern may never end, and content may exhaust the
memory. They are therefore read, matched, compiled and rendered in a process of `kais_rendering`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kais.errors import Violation
from kais.resources.blueprint import Parameter
from kais_cli import errors
from kais_rendering.blocking_session import RenderSession
from kais_rendering.errors import RenderingFailed

if TYPE_CHECKING:
    from pathlib import Path

    from kais.blueprint_rendering import CompileReport, Rendering
    from kais.change_preview import ChangePreview
    from kais_cli.ports import Body

_LIMIT_S = 10.0
_MEMORY_MIB = 512


def compile_spec(spec: Mapping[str, Any], *, subject: str) -> CompileReport:
    """Compile a blueprint's spec.

    Raises:
        UsageError: It took too long or too much memory; the message names the leaf.
    """
    from kais import blueprint_rendering  # noqa: PLC0415 (loads jinja2)

    answer = _ask({"op": "compile", "spec": dict(spec)}, subject)
    return blueprint_rendering.CompileReport.from_dict(answer)


def render(spec: Mapping[str, Any], names: Mapping[str, Any], *, subject: str) -> Rendering:
    """Render a spec; `names` are the arguments of `kais.blueprint_rendering.render_blueprint`.

    Raises:
        UsageError: It took too long or too much memory; the message names the leaf.
    """
    from kais import blueprint_rendering  # noqa: PLC0415 (loads jinja2)

    answer = _ask({"op": "render", "arguments": {"spec": dict(spec), **names}}, subject)
    return blueprint_rendering.read_rendering(answer)


def impacts(
    spec: Mapping[str, Any], instances: Sequence[Body], *, revisions: Mapping[str, Body],
    subject: str,
) -> Iterator[ChangePreview]:  # fmt: skip
    """Yield the changes of a spec to each instance.

    `revisions` are the current revisions of the instances, by the name of the instance.

    Raises:
        UsageError: An instance took too long or too much memory; the message names it and the
            leaf.
    """
    from kais.change_preview import ChangePreview  # noqa: PLC0415 (loads jinja2)

    for instance in instances:
        name = instance["metadata"]["name"]
        request = {
            "op": "impact",
            "spec": dict(spec),
            "instance": instance,
            "revision": revisions[name],
        }
        yield ChangePreview.from_dict(_ask(request, f"{subject}, for {name},"))


def violations_of(
    parameters: Sequence[Parameter], values: Mapping[str, Any], *, subject: str
) -> tuple[Violation, ...]:
    """Validate values against parameters, including their patterns.

    Raises:
        UsageError: A pattern took too long; the message names the parameter.
    """
    declared = [parameter.to_dict() for parameter in parameters]
    request = {"op": "violations", "parameters": declared, "values": dict(values)}
    answer = _ask(request, subject, advice="fix its pattern")
    return tuple(Violation(**violation) for violation in answer["violations"])


def read_text(file: Path, *, subject: str) -> str:
    """Read a file.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as exc:
        raise errors.UsageError(f"cannot read {subject}: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise errors.UsageError(f"cannot read {subject}: {exc}") from exc


def parse_yaml(text: str, *, subject: str) -> list[Any]:
    """Parse all documents of a YAML or JSON text.

    Raises:
        UsageError: It is not YAML, or takes too long, too much memory or too many values; the
            message names the subject and the limit.
    """
    request = {"op": "read_yaml", "text": text}
    answer = _ask(request, f"reading {subject}", advice="make the file simpler")
    if "refused" in answer:
        place = subject
        if answer["line"] is not None:
            place = f"{subject}:{answer['line']}:{answer['column']}"
        raise errors.UsageError(f"cannot read {place}: {answer['refused']}")
    return list(answer["documents"])


def yaml_lines(text: str, paths: Sequence[str], *, document: int, subject: str) -> list[int | None]:
    """Return the line of each path in a document of a text that `parse_yaml` has read."""
    request = {"op": "yaml_lines", "text": text, "document": document, "paths": list(paths)}
    return list(_ask(request, f"reading {subject}", advice="make the file simpler")["lines"])


@functools.cache
def _session() -> RenderSession:
    """Return the one session of this program; its worker takes longer to start than to answer."""
    session = RenderSession(memory_mib=_MEMORY_MIB)
    atexit.register(session.close)
    return session


def _ask(
    request: Mapping[str, Any], subject: str, *, advice: str = "make that leaf simpler"
) -> Mapping[str, Any]:
    with _usage_errors(subject, advice):
        return _session().ask(request, limit_s=_LIMIT_S)


@contextlib.contextmanager
def _usage_errors(subject: str, advice: str) -> Iterator[None]:
    """Convert a failure to a usage error with the exceeded limit, the location and a remedy."""
    try:
        yield
    except RenderingFailed as exc:
        problem = {
            "time": f"took more than {_LIMIT_S:g} s",
            "memory": f"needs more than {_MEMORY_MIB} MiB",
            "worker": f"broke its process ({exc})",
        }[exc.cap]
        location = f", at {exc.leaf}" if exc.leaf else ""
        if exc.cap == "time" and (exc.leaf or "").startswith("parameter "):
            advice = (
                "its pattern does not end on this value, which may be valid or not: make the"
                " pattern simpler, without repetitions inside repetitions such as (a+)+"
            )
        raise errors.UsageError(f"{subject} {problem}{location}; {advice}") from None
