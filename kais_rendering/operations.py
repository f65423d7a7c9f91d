"""The operations of a render worker: one function each, from a request to its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from kais import blueprint_rendering, parameters
from kais.resources.blueprint import Parameter
from kais.templates import Progress

Answer = dict[str, Any]


def run(request: Mapping[str, Any], progress: Progress) -> Answer:
    """Run one request; `progress` is called with each leaf or parameter before it is processed."""
    return _OPERATIONS[request["op"]](request, progress)


def _compile(request: Mapping[str, Any], progress: Progress) -> Answer:
    return blueprint_rendering.compile_blueprint(request["spec"], progress=progress).to_dict()


def _render(request: Mapping[str, Any], progress: Progress) -> Answer:
    return blueprint_rendering.render_blueprint(**request["arguments"], progress=progress).to_dict()


def _impact(request: Mapping[str, Any], progress: Progress) -> Answer:
    from kais import change_preview  # noqa: PLC0415 - only commands ask for it
    from kais.resources.blueprint_instance import BlueprintInstance  # noqa: PLC0415
    from kais.resources.blueprint_revision import BlueprintRevision  # noqa: PLC0415

    instance = BlueprintInstance.from_dict(request["instance"])
    present = BlueprintRevision.from_dict(request["revision"])
    return change_preview.preview_template(
        request["spec"], instance, present=present, progress=progress
    ).to_dict()


def _violations(request: Mapping[str, Any], progress: Progress) -> Answer:
    declared = [Parameter.from_dict(body) for body in request["parameters"]]
    resolved = parameters.resolve(declared, request["values"], progress=progress)
    return {"violations": [asdict(violation) for violation in resolved.violations]}


def _find(request: Mapping[str, Any], _: Progress) -> Answer:
    pattern = request["pattern"]
    try:
        compiled = re.compile(pattern, re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as exc:
        return {"problem": f"{pattern!r} is not a regular expression: {exc}"}
    return {"found": compiled.search(request["text"]) is not None}


def _read_yaml(request: Mapping[str, Any], _: Progress) -> Answer:
    from kais_rendering import yaml_documents  # noqa: PLC0415 - most workers read no YAML

    try:
        return {"documents": yaml_documents.read(request["text"])}
    except yaml_documents.YamlRefused as exc:
        return {"refused": str(exc), "line": exc.line, "column": exc.column}


def _yaml_lines(request: Mapping[str, Any], _: Progress) -> Answer:
    from kais_rendering import yaml_documents  # noqa: PLC0415 - most workers read no YAML

    return {"lines": yaml_documents.lines(request["text"], request["document"], request["paths"])}


_OPERATIONS: Mapping[str, Callable[[Mapping[str, Any], Progress], Answer]] = {
    "compile": _compile,
    "render": _render,
    "impact": _impact,
    "violations": _violations,
    "find": _find,
    "read_yaml": _read_yaml,
    "yaml_lines": _yaml_lines,
}
