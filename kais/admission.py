"""Generates the chart's admission policies, which verify the names of creators and reviewers.

A cell may be given the right to create Cells. Its spawn limits must not depend on what it writes.
The policies do not apply to users with the verb `approve` on cells (the roles edit and admin). For
all others the API server requires the true user name of the creator, and refuses what would evade a
limit. That includes the deletion of Cells that others created, because a Cell with other limits
could replace each. It also includes what makes the garbage collector delete a Cell, or holds up its
deletion: its ownerReferences and its finalizers.

A verdict on a Mission, and the approval of a Cell, name the user who gives it, whatever their
rights: the API server compares the annotation with the request. An object that is created with
these annotations, as by a restore, is not checked: a new run ignores verdicts on earlier work, and
only approvers may create approved Cells.

The expressions are CEL of ValidatingAdmissionPolicy, Kubernetes 1.30.

`python -m kais.admission [--check]` writes the files of the chart, or only compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kais import labels, yaml_writer
from kais.resources.base import API_GROUP

APPROVE = "approve"
"""The verb on cells that makes a user an approver; only roles use it, no request does."""

FOLDER = "charts/kais/admission"
_HEADER = "# Generated from kais/admission.py by `make crds`; do not edit.\n"
_MAY_NOT_APPROVE = {
    "name": "may-not-approve",
    "expression": f"!authorizer.group('{API_GROUP}').resource('cells')"
    f".namespace(request.namespace).check('{APPROVE}').allowed()",
}
_MAY_DELETE_EVERYTHING = "authorizer.group('*').resource('*').check('delete').allowed()"
"""True for the garbage collector and the namespace controller, whose names differ by cluster."""


def files() -> dict[str, str]:
    """Return the generated files by their paths: the specs of the policies."""
    specs = {
        "cells": policy(),
        "cell-deletions": deletion_policy(),
        "cell-approvals": cell_approval_policy(),
        "mission-reviews": review_policy(),
        "mission-approvals": approval_policy(),
    }
    return {
        f"{FOLDER}/{name}.yaml": _HEADER + yaml_writer.dump(spec) for name, spec in specs.items()
    }


def policy() -> dict[str, Any]:
    """Return the spec of the policy for the creation and update of Cells."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints("CREATE", "UPDATE"),
        "matchConditions": [_MAY_NOT_APPROVE],
        "variables": [
            _variable("createdBy", "annotations", labels.CREATED_BY),
            _variable("approved", "annotations", labels.APPROVED),
            _variable("blueprint", "labels", labels.BLUEPRINT),
            _old_variable("oldCreatedBy", "annotations", labels.CREATED_BY),
            _old_variable("oldApproved", "annotations", labels.APPROVED),
            _old_variable("oldBlueprint", "labels", labels.BLUEPRINT),
            {"name": "parent", "expression": _parent("object")},
            {"name": "oldParent", "expression": _when_updated(_parent("oldObject"))},
            *_entries("owners", "oldOwners", "ownerReferences"),
            *_entries("finalizers", "oldFinalizers", "finalizers"),
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
            {
                "expression": f"request.operation == 'CREATE' || {_same('owners', 'oldOwners')}"
                f" || {_MAY_DELETE_EVERYTHING}",
                "message": "changing ownerReferences of a Cell requires the verb"
                f" {APPROVE} on cells",
            },
            {
                "expression": f"{_same('finalizers', 'oldFinalizers')} || {_MAY_DELETE_EVERYTHING}",
                "message": f"finalizers of a Cell require the verb {APPROVE} on cells",
            },
        ],
    }


def deletion_policy() -> dict[str, Any]:
    """Return the spec of the policy for the deletion of Cells.

    The garbage collector and the namespace controller can still delete any Cell.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints("DELETE"),
        "matchConditions": [
            _MAY_NOT_APPROVE,
            {
                "name": "may-not-delete-everything",
                "expression": f"!{_MAY_DELETE_EVERYTHING}",
            },
        ],
        "variables": [_variable("createdBy", "annotations", labels.CREATED_BY, side="oldObject")],
        "validations": [
            {
                "expression": "variables.createdBy == request.userInfo.username",
                "messageExpression": "'deleting a Cell '"
                f" + (variables.createdBy == '' ? 'without the annotation {labels.CREATED_BY}'"
                " : 'that ' + variables.createdBy + ' created')"
                f" + ' requires the verb {APPROVE} on cells'",
            },
        ],
    }


def cell_approval_policy() -> dict[str, Any]:
    """Return the spec of the policy for approvals of Cells: each names its author."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints("UPDATE"),
        **_author_required(
            "approved",
            labels.APPROVED,
            labels.APPROVED_BY,
            advice="`kais cell approve` writes both",
        ),
    }


def review_policy() -> dict[str, Any]:
    """Return the spec of the policy for verdicts on Missions: each names its author."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints("UPDATE", resource="missions"),
        **_author_required(
            "review",
            labels.REVIEW,
            labels.REVIEWED_BY,
            advice="`kais mission approve` and `kais mission reject` write both",
        ),
    }


def approval_policy() -> dict[str, Any]:
    """Return the spec of the policy for approvals of tool calls: their author is the requester.

    A ServiceAccount never approves, whatever its rights, because cells have ServiceAccounts.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints("UPDATE", resource="missions"),
        "variables": [
            _variable("approval", "annotations", labels.APPROVAL),
            _variable("author", "annotations", labels.APPROVAL_BY),
            _variable("oldApproval", "annotations", labels.APPROVAL, side="oldObject"),
            _variable("oldAuthor", "annotations", labels.APPROVAL_BY, side="oldObject"),
        ],
        "validations": [
            {
                "expression": "variables.approval == '' ||"
                " (variables.approval == variables.oldApproval &&"
                " variables.author == variables.oldAuthor) ||"
                " (variables.author == request.userInfo.username &&"
                " !('system:serviceaccounts' in request.userInfo.groups))",
                "messageExpression": f"'{labels.APPROVAL} requires {labels.APPROVAL_BY}: '"
                " + request.userInfo.username + ', and comes from a person, not from a"
                " ServiceAccount'",
            },
        ],
    }


def _author_required(name: str, annotation: str, author: str, *, advice: str) -> dict[str, Any]:
    """Require that an update of an annotation also names the requesting user as its author."""
    by, old, old_by = "author", f"old{name.title()}", "oldAuthor"
    return {
        "variables": [
            _variable(name, "annotations", annotation),
            _variable(by, "annotations", author),
            _variable(old, "annotations", annotation, side="oldObject"),
            _variable(old_by, "annotations", author, side="oldObject"),
        ],
        "validations": [
            {
                "expression": f"variables.{name} == ''"
                f" || (variables.{name} == variables.{old}"
                f" && variables.{by} == variables.{old_by})"
                f" || variables.{by} == request.userInfo.username",
                "messageExpression": f"'{annotation} needs the annotation"
                f" {author}: ' + request.userInfo.username"
                f" + '; {advice}'",
            },
        ],
    }


def _constraints(*operations: str, resource: str = "cells") -> dict[str, Any]:
    rule = {
        "apiGroups": [API_GROUP],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": [resource],
    }
    return {"resourceRules": [rule]}


def _variable(name: str, field: str, key: str, *, side: str = "object") -> dict[str, str]:
    metadata = f"{side}.metadata"
    value = (
        f"has({metadata}.{field}) && '{key}' in {metadata}.{field}"
        f" ? {metadata}.{field}['{key}'] : ''"
    )
    return {"name": name, "expression": value}


def _old_variable(name: str, field: str, key: str) -> dict[str, str]:
    variable = _variable(name, field, key, side="oldObject")
    return {**variable, "expression": _when_updated(variable["expression"])}


def _entries(name: str, old_name: str, field: str) -> list[dict[str, str]]:
    """Return the variables for a list of the metadata, as it is and as it was before an update."""
    new, old = (
        f"has({side}.metadata.{field}) ? {side}.metadata.{field} : []"
        for side in ("object", "oldObject")
    )
    return [
        {"name": name, "expression": new},
        {"name": old_name, "expression": f"request.operation == 'CREATE' ? [] : ({old})"},
    ]


def _same(name: str, old_name: str) -> str:
    """Require that two lists have the same entries, in any order."""
    new, old = f"variables.{name}", f"variables.{old_name}"
    return f"({new}.all(one, one in {old}) && {old}.all(one, one in {new}))"


def _parent(side: str) -> str:
    return f"has({side}.spec.parentRef) ? {side}.spec.parentRef : ''"


def _unchanged(field: str) -> dict[str, str]:
    """Require that an update neither changes, sets nor unsets a field of the spec."""
    new, old = f"object.spec.{field}", f"oldObject.spec.{field}"
    return {
        "expression": f"request.operation == 'CREATE' || (has({new}) == has({old})"
        f" && (!has({new}) || {new} == {old}))",
        "message": f"changing {field} of a Cell requires the verb {APPROVE} on cells",
    }


def _when_updated(expression: str) -> str:
    return f"request.operation == 'CREATE' ? '' : ({expression})"


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` only compare; returns the exit status."""
    root = Path(__file__).parent.parent
    status = 0
    for name, text in files().items():
        path = root / name
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            sys.stderr.write(f"{name} is not current; run `make crds`\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
