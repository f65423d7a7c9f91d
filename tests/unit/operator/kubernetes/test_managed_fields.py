"""The fields of our create are handed over to our apply, once."""

from __future__ import annotations

from kais_operator.kubernetes import managed_fields


def entry(manager: str, operation: str, fields: dict, **extra_fields: str) -> dict:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **extra_fields}


def live(*entries: dict) -> dict:
    return {"metadata": {"resourceVersion": "7", "managedFields": list(entries)}}


def test_what_we_created_becomes_what_we_applied():
    own_entry = entry("kais-operator", "Update", {"f:spec": {"f:a": {}}})
    user = entry("kubectl", "Update", {"f:metadata": {}})
    patch = managed_fields.migration_patch(live(user, own_entry))
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["metadata"]["managedFields"] == [{**own_entry, "operation": "Apply"}, user]


def test_an_apply_that_is_there_already_is_joined():
    created = entry("kais-operator", "Update", {"f:spec": {"f:a": {}}})
    applied = entry("kais-operator", "Apply", {"f:spec": {"f:b": {}}})
    patch = managed_fields.migration_patch(live(created, applied))
    assert patch is not None
    (joined,) = patch["metadata"]["managedFields"]
    assert joined["fieldsV1"] == {"f:spec": {"f:a": {}, "f:b": {}}}


def test_status_metadata_and_others_are_left_alone():
    entries = (
        entry("kais-operator-status", "Apply", {"f:status": {}}, subresource="status"),
        entry("kais-operator-metadata", "Update", {"f:metadata": {}}),
        entry("kais-operator", "Apply", {"f:spec": {}}),
    )
    assert managed_fields.migration_patch(live(*entries)) is None
    assert managed_fields.migration_patch({"metadata": {"resourceVersion": "1"}}) is None


def test_what_others_wrote_into_the_spec_of_our_kinds_becomes_ours_and_the_rest_stays_theirs():
    own_entry = entry("kais-operator", "Apply", {"f:spec": {"f:a": {}}})
    user = entry("kubectl", "Update", {"f:metadata": {"f:labels": {}}, "f:spec": {"f:b": {}}})
    editor = entry("editor", "Update", {"f:spec": {"f:c": {}}})
    status = entry("kais-operator-status", "Apply", {"f:status": {}}, subresource="status")
    body = {**live(user, status, own_entry, editor), "apiVersion": "kais.io/v1"}
    patch = managed_fields.migration_patch(body)
    assert patch is not None
    joined, stored_record, untouched = patch["metadata"]["managedFields"]
    assert (joined["manager"], joined["operation"]) == ("kais-operator", "Apply")
    assert joined["fieldsV1"] == {"f:spec": {"f:a": {}, "f:b": {}, "f:c": {}}}
    assert stored_record == {**user, "fieldsV1": {"f:metadata": {"f:labels": {}}}}
    assert untouched == status


def test_what_others_wrote_into_other_kinds_stays_theirs():
    user = entry("injector", "Update", {"f:spec": {"f:b": {}}})
    assert managed_fields.migration_patch({**live(user), "apiVersion": "apps/v1"}) is None
