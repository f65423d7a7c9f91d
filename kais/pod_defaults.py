"""The pod fields that the installation gives the cells of a cluster or a namespace.

Fields of a Cell take precedence. Objects are merged member by member, except those of which only
one member may be set, such as probes. Lists whose items have a key in Kubernetes are merged by that
key, and all other values are replaced. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from kais import forbidden_pod_fields
from kais.errors import InvalidResource, Violation
from kais.forbidden_pod_fields import NOTHING_ALLOWED, Allowed
from kais.resources import pod_schema
from kais.resources.base import Model
from kais.resources.cell_template import CellTemplateSpec, Container
from kais.resources.pod_template import ContainerFields, PodTemplate

_PARTS = ("container", "podTemplate")
_REPLACED = frozenset(
    {
        *("livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"),
        *("seccompProfile", "appArmorProfile"),
    }
)
"""Objects that are replaced as a whole: a member of one excludes or determines the others."""


class CellDefaults(Model):
    """Fields of the containers and pods of cells that set none of their own."""

    container: ContainerFields | None = Field(
        default=None, description="Fields of the container of a cell with a container."
    )
    pod_template: PodTemplate | None = Field(
        default=None, description="Fields of the pods of a cell."
    )


@dataclass(frozen=True)
class PodPolicy:
    """The installation's defaults for the pods of cells, and the names that it allows.

    Attributes:
        defaults: for all cells.
        by_namespace: for the cells of a namespace; they take precedence over those for all.
        allowed: names that cells may use.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    by_namespace: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    allowed: Allowed = NOTHING_ALLOWED

    def defaults_of(self, namespace: str) -> Mapping[str, Any]:
        """Return the defaults of the cells of a namespace, in the API's spelling."""
        return merge(self.defaults, self.by_namespace.get(namespace, {}))


NO_POLICY = PodPolicy()


def read_defaults(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Validate defaults.

    Raises:
        InvalidResource: A field is unknown or invalid, or belongs to kais.
    """
    unknown = [key for key in tree if key not in _PARTS]
    if unknown:
        message = "is neither container nor podTemplate"
        raise InvalidResource("CellDefaults", [Violation(key, message) for key in unknown])
    defaults = CellDefaults.from_dict(tree)
    fields = defaults.container.to_dict() if defaults.container is not None else {}
    spec = CellTemplateSpec(
        container=Container.from_dict({**fields, "image": "any"}),
        pod_template=defaults.pod_template,
    )
    broken = forbidden_pod_fields.violations(spec)
    if broken:
        raise InvalidResource("CellDefaults", broken)
    return defaults.to_dict()


def with_defaults(spec: CellTemplateSpec, defaults: Mapping[str, Any]) -> CellTemplateSpec:
    """Return the spec of a cell; the installation's defaults fill in the fields it does not set."""
    if not defaults:
        return spec
    declared = spec.to_dict()
    own: dict[str, Any] = {key: declared[key] for key in _PARTS if key in declared}
    merged = merge(defaults, own)
    if spec.container is None:
        merged.pop("container", None)
    return type(spec).from_dict({**declared, **merged})


def merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two trees of fields; `override` takes precedence."""
    merged = dict(base)
    for key, value in override.items():
        merged[key] = _merge_member(key, merged[key], value) if key in merged else value
    return merged


def _merge_member(name: str, base: Any, override: Any) -> Any:
    if name in _REPLACED:
        return override
    if isinstance(base, Mapping) and isinstance(override, Mapping):
        return merge(base, override)
    keys = pod_schema.list_map_keys(name)
    if isinstance(base, list) and isinstance(override, list) and keys:
        items = {tuple(item.get(key) for key in keys): item for item in [*base, *override]}
        return list(items.values())
    return override
