"""The rights that the chart gives the operator, judged as the API server judges them.

The rules are read from the chart's own files, so a decision whose verb no rule grants fails its
test with the error that a cluster would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import yaml

from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.planning.plan import Body, ObjectRef

RULES = Path(__file__).parents[2] / "charts/kais/rules"
HOME = "kais-system"
Grant = tuple[str, str, str]
"""An API group, a resource with its subresource, and a verb."""


def granted(*files: str) -> frozenset[Grant]:
    """Give every grant of some of the chart's rule files."""
    return frozenset(
        grant
        for file in files
        for rule in yaml.safe_load((RULES / f"{file}.yaml").read_text())
        for grant in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    )


@dataclass(frozen=True)
class Rights:
    """The grants of one way to install the chart.

    Attributes:
        watched: in the namespaces that the operator watches.
        home: in the operator's own namespace.
    """

    watched: frozenset[Grant]
    home: frozenset[Grant]

    def require(self, verb: str, ref: ObjectRef, *, subresource: str = "") -> None:
        """Raise Forbidden unless a rule grants the verb on this object."""
        group, resource = _resource(ref.kind)
        whole = f"{resource}/{subresource}" if subresource else resource
        namespace = ref.name if ref.kind == "Namespace" else ref.namespace
        if (group, whole, verb) not in (self.home if namespace == HOME else self.watched):
            raise errors.Forbidden(
                f'{resource}{"." if group else ""}{group} "{ref.name}" is forbidden: User '
                f'"system:serviceaccount:{HOME}:kais-operator" cannot {verb} resource "{whole}" '
                f'in API group "{group}" in the namespace "{namespace}"'
            )


_ROLES = granted("operator", "operator-watching")
_HOME_ROLE = granted("operator-home", "operator-watching", "operator-home-watching")
OF_CLUSTER = Rights(
    _ROLES | granted("operator-cluster"),
    _ROLES | granted("operator-cluster", "operator-home"),
)
"""The chart without `namespaces`: a ClusterRole, and a Role at home."""
OF_NAMESPACES = Rights(_ROLES, _HOME_ROLE)
"""The chart with `namespaces` that leave out the operator's own: nothing but Roles."""
AT_HOME_TOO = Rights(_ROLES, _HOME_ROLE | _ROLES)
"""The chart with `namespaces` that name the operator's own too."""
EVERY_WAY = (OF_CLUSTER, AT_HOME_TOO)


def of_call(verb: str, ref: ObjectRef, body: Body | None) -> Iterator[tuple[str, ObjectRef, str]]:
    """Give what the API server asks for one call of the Cluster port: verb, object, subresource."""
    if verb == "apply":
        yield from (("get", ref, ""), ("create", ref, ""), ("patch", ref, ""))
    elif verb == "status":
        yield "patch", ref, "status"
    elif verb == "emit":
        yield "create", ObjectRef("Event", ref.namespace, ref.name), ""
    else:
        yield verb, ref, ""
    for owner in ((body or {}).get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("blockOwnerDeletion"):
            yield "update", ObjectRef(owner["kind"], ref.namespace, owner["name"]), "finalizers"


def _resource(kind: str) -> tuple[str, str]:
    place = api_paths.RESOURCES[kind]
    group, _, _ = place.api_version.rpartition("/")
    return group, place.plural
