"""The fields of our create are handed over to our apply, once."""

from __future__ import annotations

from kais_operator.adapters import ownership


def entry(manager: str, operation: str, fields: dict, **more: str) -> dict:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def live(*entries: dict) -> dict:
    return {"metadata": {"resourceVersion": "7", "managedFields": list(entries)}}


def test_what_we_created_becomes_what_we_applied():
    ours = entry("kais-operator", "Update", {"f:spec": {"f:a": {}}})
    user = entry("kubectl", "Update", {"f:metadata": {}})
    patch = ownership.handover(live(user, ours))
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["metadata"]["managedFields"] == [{**ours, "operation": "Apply"}, user]


def test_an_apply_that_is_there_already_is_joined():
    created = entry("kais-operator", "Update", {"f:spec": {"f:a": {}}})
    applied = entry("kais-operator", "Apply", {"f:spec": {"f:b": {}}})
    patch = ownership.handover(live(created, applied))
    assert patch is not None
    (joined,) = patch["metadata"]["managedFields"]
    assert joined["fieldsV1"] == {"f:spec": {"f:a": {}, "f:b": {}}}


def test_status_metadata_and_others_are_left_alone():
    entries = (
        entry("kais-operator-status", "Apply", {"f:status": {}}, subresource="status"),
        entry("kais-operator-metadata", "Update", {"f:metadata": {}}),
        entry("kais-operator", "Apply", {"f:spec": {}}),
    )
    assert ownership.handover(live(*entries)) is None
    assert ownership.handover({"metadata": {"resourceVersion": "1"}}) is None
