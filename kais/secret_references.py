"""The names of Secrets in a rendered template: literals of its author or secretRef parameters.

A text parameter must not choose a Secret: its rules say nothing about Secrets, so a user of a
Blueprint could read any Secret of the namespace. The check follows the rendering, so neither an
expression nor an object parameter can avoid it. Attributes of CSI volumes count as names too,
because the driver decides which of them it reads as the name of a Secret. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kais import templates
from kais.errors import Violation
from kais.resources.blueprint import ParameterType, TemplateSpec

_REFERENCE_FIELDS = frozenset(
    {"secretKeyRef", "secretRef", "nodePublishSecretRef", "credentialsRef"}
)
"""Fields whose member `name` is the name of a Secret."""
_LISTED = {"imagePullSecrets": "name", "headersFrom": "secret"}
"""Lists of objects whose member of this name is the name of a Secret."""
_PARTS = ("container", "mind", "podTemplate", "tools")
"""The parts of a cell that refer to Secrets."""
_REMEDY = "write it literally, or use {{ parameter.name }} of a parameter of type secretRef"
_Names = Iterator[tuple[str, Any]]
"""Names with their paths."""
_Finder = Callable[[str, Any, str], _Names]
"""Yields the names that a member of an object has, from its key, value and path."""


def violations(
    template: TemplateSpec, values: Mapping[str, Any], *, rendered: Any
) -> tuple[Violation, ...]:
    """Return the Secrets that a rendered formation names without permission.

    `values` are those of the parameters, `rendered` is the tree of the formation.
    """
    secrets = {
        values[parameter.name]["name"]
        for parameter in template.parameters
        if parameter.type is ParameterType.SECRET_REF and values.get(parameter.name) is not None
    }
    secrets |= _literals(_names(template.formation, _own_names))
    attributes = secrets | _literals(_names(template.formation, _csi_attributes))
    return (
        *(
            Violation(path, f'"{name}" is the name of a Secret from text: {_REMEDY}')
            for path, name in _names(rendered, _own_names)
            if name not in secrets
        ),
        *(
            Violation(path, f'"{name}" is text that may name a Secret for the driver: {_REMEDY}')
            for path, name in _names(rendered, _csi_attributes)
            if name not in attributes
        ),
    )


def _literals(literals: Iterable[tuple[str, Any]]) -> set[str]:
    return {
        name for _, name in literals if isinstance(name, str) and not templates.is_template(name)
    }


def _names(formation: Any, finder: _Finder) -> _Names:
    """Yield each name in the cells of a formation, with its path."""
    cells = formation.get("cells") if isinstance(formation, Mapping) else None
    for index, cell in enumerate(cells if isinstance(cells, list) else ()):
        spec = cell.get("spec") if isinstance(cell, Mapping) else None
        for part in _PARTS:
            if isinstance(spec, Mapping) and part in spec:
                yield from _names_in(spec[part], f"formation.cells[{index}].spec.{part}", finder)


def _names_in(tree: Any, path: str, finder: _Finder) -> _Names:
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _names_in(item, f"{path}[{index}]", finder)
    if not isinstance(tree, Mapping):
        return
    for key, child in tree.items():
        below = f"{path}.{key}"
        yield from finder(key, child, below)
        yield from _names_in(child, below, finder)


def _csi_attributes(key: str, child: Any, path: str) -> _Names:
    attributes = child.get("volumeAttributes") if isinstance(child, Mapping) else None
    if key == "csi" and isinstance(attributes, Mapping):
        for name, value in attributes.items():
            yield f"{path}.volumeAttributes[{name}]", value


def _own_names(key: str, child: Any, path: str) -> _Names:
    if key in _LISTED and isinstance(child, list):
        member = _LISTED[key]
        for index, item in enumerate(child):
            if isinstance(item, Mapping) and member in item:
                yield f"{path}[{index}].{member}", item[member]
    elif key == "secret" and isinstance(child, Mapping):
        for name in ("secretName", "name"):
            if name in child:
                yield f"{path}.{name}", child[name]
    elif key in _REFERENCE_FIELDS and isinstance(child, Mapping) and "name" in child:
        yield f"{path}.name", child["name"]
