"""What memory holds of the cluster, however late and in whatever order it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import labels
from kais_operator.informer.cache import Cache, is_newer
from kais_operator.planning.plan import Body, ObjectRef

MANAGED_LABELS = {labels.MANAGED_BY: labels.MANAGER}


def body(name: str = "a", *, version: str = "1", uid: str = "u1", **metadata: object) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Cell",
        "metadata": {
            "name": name,
            "namespace": "demo",
            "uid": uid,
            "resourceVersion": version,
            **metadata,
        },
    }


def ref(name: str = "a") -> ObjectRef:
    return ObjectRef("Cell", "demo", name)


@pytest.fixture
def cache() -> Cache:
    cache = Cache(labelled=["Job"])
    cache.complete_list("Cell", None, uids=set(), version="0")
    return cache


def test_versions_are_compared_as_numbers():
    assert is_newer("10", "9")
    assert not is_newer("9", "10")
    assert is_newer("b", "a")
    assert not is_newer("a", "a")


def test_an_older_event_does_not_take_back_a_newer_answer(cache):
    assert cache.put(body(version="12"), is_confirmed=False)
    assert not cache.put(body(version="11"), is_confirmed=True)
    assert cache.version(ref()) == "12"


def test_what_is_gone_does_not_come_back_by_a_late_answer(cache):
    cache.put(body(version="10"), is_confirmed=True)
    cache.record_deletion(body(version="12"))
    assert not cache.put(body(version="11"), is_confirmed=False)
    assert cache.get(ref()) is None
    assert cache.is_deleted(ref())


def test_what_we_deleted_does_not_come_back_by_a_late_event(cache):
    cache.put(body(version="10"), is_confirmed=True)
    cache.remove(ref(), "u1")
    assert not cache.put(body(version="11"), is_confirmed=True)
    assert cache.get(ref()) is None


def test_a_successor_takes_the_name_and_its_predecessors_end_leaves_it(cache):
    cache.put(body(version="10"), is_confirmed=True)
    cache.put(body(version="15", uid="u2"), is_confirmed=False)
    cache.record_deletion(body(version="12"))
    assert cache.version(ref()) == "15"
    assert not cache.is_deleted(ref())


def test_an_object_that_left_what_is_watched_may_come_back(cache):
    cache.put(body(version="10"), is_confirmed=True)
    cache.record_deletion(body(version="12"))
    assert cache.put(body(version="14"), is_confirmed=True)


def test_a_list_after_a_gap_drops_what_went_and_says_so(cache):
    cache.put(body("gone", version="10", uid="u1"), is_confirmed=True)
    cache.put(body("kept", version="11", uid="u2"), is_confirmed=True)
    cache.put(body("made-since", version="30", uid="u3"), is_confirmed=False)
    lost = cache.complete_list("Cell", None, uids={"u2"}, version="20")
    assert [first["metadata"]["name"] for first in lost] == ["gone"]
    assert [b["metadata"]["name"] for b in cache.find("Cell", "demo", {})] == ["kept", "made-since"]


def test_a_list_of_one_namespace_says_nothing_of_the_others(cache):
    cache.put(body(version="1"), is_confirmed=True)
    assert cache.complete_list("Cell", "elsewhere", uids=set(), version="20") == []
    assert cache.get(ref()) is not None


def test_memory_answers_only_for_what_was_listed(cache):
    assert cache.covers("Cell", "demo")
    assert not cache.covers("Job", "demo")
    cache.complete_list("Job", "demo", uids=set(), version="1")
    assert cache.covers("Job", "demo")
    assert not cache.covers("Job", "elsewhere")
    assert not cache.covers("Job", None)
    cache.clear()
    assert not cache.covers("Cell", "demo")


def test_only_what_the_watches_tell_of_is_kept(cache):
    cache.complete_list("Job", None, uids=set(), version="1")
    assert cache.is_watched({**body(labels=MANAGED_LABELS), "kind": "Job"})
    assert not cache.is_watched({**body(), "kind": "Job"})
    assert cache.is_watched(body())
    assert not cache.is_watched({**body(), "kind": "Secret"})


def test_objects_are_found_by_their_labels_and_no_longer_by_those_they_lost(cache):
    cache.put(body("b", version="1", uid="u1", labels={labels.FORMATION: "f"}), is_confirmed=True)
    cache.put(
        body("a", version="2", uid="u2", labels={labels.FORMATION: "f", "x": "y"}),
        is_confirmed=True,
    )
    result = cache.find("Cell", "demo", {labels.FORMATION: "f"})
    assert [b["metadata"]["name"] for b in result] == ["a", "b"]
    assert len(cache.find("Cell", "demo", {labels.FORMATION: "f", "x": "y"})) == 1
    assert len(cache.find("Cell", None, {"x": "y"})) == 1
    cache.put(body("b", version="3", uid="u1"), is_confirmed=True)
    result = cache.find("Cell", "demo", {labels.FORMATION: "f"})
    assert [b["metadata"]["name"] for b in result] == ["a"]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([None, "x", "y"]), st.booleans()), max_size=60
    )
)
def test_a_label_finds_exactly_the_objects_that_have_it(changes):
    cache, labelled = Cache(labelled=["Job"]), {}
    cache.complete_list("Cell", None, uids=set(), version="0")
    for version, (number, value, is_deleted) in enumerate(changes):
        name = f"c{number}"
        object_labels = {} if value is None else {labels.FORMATION: value}
        changed = body(name, version=str(version), uid=f"{name}-{version}", labels=object_labels)
        cache.put(changed, is_confirmed=True)
        labelled[name] = value
        if is_deleted:
            cache.remove(ref(name), changed["metadata"]["uid"])
            del labelled[name]
    for value in ("x", "y"):
        found = cache.find("Cell", "demo", {labels.FORMATION: value})
        expected = sorted(name for name in labelled if labelled[name] == value)
        assert [item["metadata"]["name"] for item in found] == expected


def test_readers_cannot_change_what_others_read(cache):
    cache.put(body(labels={"x": "y"}, managedFields=[{"manager": "m"}]), is_confirmed=True)
    read = cache.get(ref())
    assert "managedFields" not in read["metadata"]
    read["metadata"]["labels"]["x"] = "z"
    assert cache.get(ref())["metadata"]["labels"] == {"x": "y"}


def test_a_state_that_only_we_wrote_is_not_told_yet(cache):
    cache.put(body(version="5"), is_confirmed=False)
    assert not cache.is_confirmed(body(version="5"))
    cache.put(body(version="5"), is_confirmed=True)
    assert cache.is_confirmed(body(version="5"))
    assert not cache.is_confirmed(body(version="6"))


def test_a_namespace_has_new_objects_when_their_owner_is_unknown(cache):
    cache.put(body(version="1"), is_confirmed=True)
    assert cache.has_new_objects("demo")
    assert not cache.has_new_objects("demo")
    cache.put(body("b", uid="u2", version="2", ownerReferences=[{"uid": "u1"}]), is_confirmed=True)
    assert not cache.has_new_objects("demo")
    cache.put(body("c", uid="u3", version="3", ownerReferences=[{"uid": "u9"}]), is_confirmed=True)
    assert cache.has_new_objects("demo")
