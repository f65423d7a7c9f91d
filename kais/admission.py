"""The admission policy for Cells, generated into the chart: who created a Cell is on record.

A cell may be given the right to create Cells. Its spawn limits must not depend on what it writes.
The policy does not apply to users with the verb `approve` on cells (the roles edit and admin). For
all others the API server requires the true user name of the creator, and refuses what would pass a
limit.
The expressions are CEL of ValidatingAdmissionPolicy, Kubernetes 1.30.

`python -m kais.admission [--check]` writes the file of the chart, or compares it only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kais import labels, yamltext
from kais.resources.base import API_GROUP

APPROVE = "approve"
"""The verb on cells that makes a user an approver; no request bears it, only roles do."""


FILE = "charts/kais/admission/cells.yaml"
_HEADER = "# Generated from kais/admission.py by `make crds`; do not edit.\n"


def text() -> str:
    """Give the generated file: the spec of the policy."""
    return _HEADER + yamltext.dump(policy())


def policy() -> dict[str, Any]:
    """Give the spec of the ValidatingAdmissionPolicy."""
    rule = {
        "apiGroups": [API_GROUP],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["cells"],
    }
    may_approve = (
        f"authorizer.group('{API_GROUP}').resource('cells').namespace(request.namespace)"
        f".check('{APPROVE}').allowed()"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "may-not-approve", "expression": f"!{may_approve}"}],
        "variables": [
            _variable("createdBy", "annotations", labels.CREATED_BY),
            _variable("approved", "annotations", labels.APPROVED),
            _variable("blueprint", "labels", labels.BLUEPRINT),
            _variable("oldCreatedBy", "annotations", labels.CREATED_BY, old=True),
            _variable("oldApproved", "annotations", labels.APPROVED, old=True),
            _variable("oldBlueprint", "labels", labels.BLUEPRINT, old=True),
            {"name": "parent", "expression": _parent("object")},
            {"name": "oldParent", "expression": _when_updated(_parent("oldObject"))},
        ],
        "validations": [
            {
                "expression": "variables.createdBy == (request.operation == 'CREATE'"
                " ? request.userInfo.username : variables.oldCreatedBy)",
                "messageExpression": f"'a Cell needs the annotation {labels.CREATED_BY}: '"
                f" + request.userInfo.username + ' of a creator who lacks the verb {APPROVE} on"
                " cells; it is never changed'",
            },
            {
                "expression": "variables.approved == '' ||"
                " variables.approved == variables.oldApproved",
                "message": f"{labels.APPROVED} requires the verb {APPROVE} on cells,"
                " which the role edit grants",
            },
            {
                "expression": "variables.blueprint == variables.oldBlueprint",
                "message": f"the label {labels.BLUEPRINT} of a Cell requires the verb {APPROVE} on"
                " cells; create a BlueprintInstance instead",
            },
            {
                "expression": "request.operation == 'CREATE' ||"
                " variables.parent == variables.oldParent",
                "message": f"changing parentRef of a Cell requires the verb {APPROVE} on cells",
            },
            *map(_unchanged, ("recursion", "serviceAccountName")),
        ],
    }


def _variable(name: str, field: str, key: str, *, old: bool = False) -> dict[str, str]:
    metadata = "oldObject.metadata" if old else "object.metadata"
    value = (
        f"has({metadata}.{field}) && '{key}' in {metadata}.{field}"
        f" ? {metadata}.{field}['{key}'] : ''"
    )
    return {"name": name, "expression": _when_updated(value) if old else value}


def _parent(side: str) -> str:
    return f"has({side}.spec.parentRef) ? {side}.spec.parentRef : ''"


def _unchanged(field: str) -> dict[str, str]:
    """Require that an update leaves a field of the spec as it is, set or unset."""
    new, old = f"object.spec.{field}", f"oldObject.spec.{field}"
    return {
        "expression": f"request.operation == 'CREATE' || (has({new}) == has({old})"
        f" && (!has({new}) || {new} == {old}))",
        "message": f"changing {field} of a Cell requires the verb {APPROVE} on cells",
    }


def _when_updated(expression: str) -> str:
    return f"request.operation == 'CREATE' ? '' : ({expression})"


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with `--check` only compare; returns the exit status."""
    path = Path(__file__).parent.parent / FILE
    if "--check" not in arguments:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text())
        return 0
    if path.is_file() and path.read_text() == text():
        return 0
    sys.stderr.write(f"{FILE} is not current; run `make crds`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
