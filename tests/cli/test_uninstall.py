"""`kais uninstall`: runs end, our finalizers go, and no object of a user does."""

import copy
from datetime import timedelta

import pytest

from kais import labels
from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from tests.cli import objects

FINALIZERS = ["other.io/x", labels.FINALIZER]


def held(body, namespace="demo", **annotations):
    body["metadata"] |= {
        "namespace": namespace,
        "finalizers": list(FINALIZERS),
        "annotations": annotations,
        "resourceVersion": "1",
    }
    return body


def running(name="busy", namespace="demo"):
    return held(objects.mission(name), namespace, **{labels.RUN_ID: "r"})


def job(name, **status):
    owner = {"apiVersion": "kais.io/v1", "kind": "Mission", "name": "busy", "controller": True}
    metadata = {
        "name": name,
        "namespace": "demo",
        "labels": {"app.kubernetes.io/managed-by": "kais"},
        "ownerReferences": [owner],
    }
    return {"kind": "Job", "metadata": metadata, "status": status}


@pytest.fixture(autouse=True)
def cluster_with_objects(cluster):
    cluster.put(objects.workload("Deployment", "operator"))
    cluster.put(objects.lease())
    cluster.put(running())
    cluster.put(running("far", "other"))
    recorded = held(objects.ended(), **{labels.RUN_ID: "r", labels.OUTCOME: "Succeeded"})
    recorded["metadata"]["finalizers"].remove(labels.FINALIZER)
    cluster.put(recorded)
    cluster.put(held(objects.made("KnowledgeScope", "team", {"level": "realm"})))
    cluster.put(objects.blueprint())
    cluster.put(job("busy-a1"))
    cluster.put(job("busy-a0", conditions=[{"type": "Complete", "status": "True"}]))


def operator_ends(cluster, monkeypatch, *names, releases=True):
    """Have the operator end these missions as soon as they are aborted.

    It releases its Lease when its Deployment is deleted, unless it is killed.
    """
    patch, delete = cluster.patch, cluster.delete

    def patched(kind, namespace, name, change, **options):
        body = patch(kind, namespace, name, change, **options)
        if kind == "Mission" and labels.ABORT in change["metadata"].get("annotations", {}):
            body = copy.deepcopy(body)
            if name in names:
                body["metadata"]["annotations"][labels.OUTCOME] = "Cancelled"
                body["metadata"]["finalizers"].remove(labels.FINALIZER)
                cluster._objects.pop(("Job", namespace, f"{name}-a1"), None)
            cluster.put(body)
        return body

    def deleted(kind, namespace, name):
        delete(kind, namespace, name)
        if kind == "Deployment" and releases:
            cluster.put(objects.lease(holder=""))

    monkeypatch.setattr(cluster, "patch", patched)
    monkeypatch.setattr(cluster, "delete", deleted)


def names_of(cluster):
    return {(kind, name) for kind, _, name in cluster._objects}


def test_runs_end_the_operator_stops_and_finalizers_go(terminal, cluster, monkeypatch):
    operator_ends(cluster, monkeypatch, "busy", "far")
    initial_names = names_of(cluster)
    assert terminal.run("uninstall") == 0, terminal.err
    ending_objects = {("Job", "busy-a1"), ("Deployment", "kais-operator")}
    assert initial_names - names_of(cluster) == ending_objects, "no object of a user is deleted"
    for namespace, name in (("demo", "busy"), ("other", "far")):
        metadata = cluster.get("Mission", namespace, name)["metadata"]
        assert metadata["annotations"][labels.ABORT] == "kais is being uninstalled"
        assert metadata["finalizers"] == ["other.io/x"]
    assert cluster.get("KnowledgeScope", "demo", "team")["metadata"]["finalizers"] == ["other.io/x"]
    ended = cluster.get("Mission", "demo", "doctor-x2k4f")["metadata"]
    assert labels.ABORT not in ended["annotations"]
    assert cluster.deleted == [("Deployment", "kais-system", "kais-operator")]
    assert terminal.err == "now run: helm uninstall kais -n kais-system\n"


def test_a_run_that_the_operator_does_not_end_loses_its_job_after_a_minute(
    terminal, cluster, monkeypatch
):
    operator_ends(cluster, monkeypatch, "far")
    started_at = cluster.now
    assert terminal.run("uninstall") == 0
    assert 60 <= (cluster.now - started_at).total_seconds() < 70
    assert "waited 60 s for runs to end and to be recorded: 1 are left" in terminal.err
    assert cluster.deleted == [
        ("Deployment", "kais-system", "kais-operator"),
        ("Job", "demo", "busy-a1"),
    ]


def test_the_operator_is_not_stopped_before_the_end_of_a_run_is_recorded(
    terminal, cluster, monkeypatch
):
    operator_ends(cluster, monkeypatch, "busy", "far")
    ended = {labels.RUN_ID: "r", labels.OUTCOME: "Succeeded"}
    cluster.put(held(objects.ended(), **ended))
    started_at = cluster.now
    assert terminal.run("uninstall") == 0
    assert (cluster.now - started_at).total_seconds() >= 60
    assert "to be recorded: 1 are left" in terminal.err
    metadata = cluster.get("Mission", "demo", "doctor-x2k4f")["metadata"]
    assert metadata["finalizers"] == ["other.io/x"]


def test_without_an_operator_nothing_is_waited_for(terminal, cluster):
    cluster.put(objects.lease(holder=""))
    started_at = cluster.now
    assert terminal.run("uninstall") == 0
    assert cluster.now == started_at
    assert cluster.get("Mission", "demo", "busy")["metadata"]["finalizers"] == ["other.io/x"]
    assert labels.ABORT not in cluster.get("Mission", "demo", "busy")["metadata"]["annotations"]


def test_an_operator_that_leads_after_the_deployment_is_gone_keeps_its_finalizers(
    terminal, cluster, monkeypatch
):
    get = cluster.get

    def renewed(kind, *arguments):
        if kind == "Lease":
            cluster.put(objects.lease(f"{cluster.now:%Y-%m-%dT%H:%M:%S.%fZ}", holder="laptop-1"))
        return get(kind, *arguments)

    monkeypatch.setattr(cluster, "get", renewed)
    operator_ends(cluster, monkeypatch, "busy", "far")
    assert terminal.run("uninstall") == ExitStatus.FAILED
    assert terminal.err.splitlines()[-1] == (
        "error: Lease/kais-system/kais-operator: laptop-1 still leads and would put its finalizers"
        " back, so none was removed; stop the operator laptop-1, then run it again"
    )
    assert (
        labels.FINALIZER in cluster.get("KnowledgeScope", "demo", "team")["metadata"]["finalizers"]
    )
    assert ("Job", "demo", "busy-a1") not in cluster.deleted


@pytest.mark.parametrize(
    "renewed",
    ["2029-12-31T23:59:55.000000Z", "2029-12-31T18:00:00.000000Z", "2030-01-01T09:00:00.000000Z"],
    ids=["just killed", "killed hours ago", "clock ahead"],
)
def test_a_lease_that_a_killed_operator_left_is_waited_for_30_s(
    terminal, cluster, monkeypatch, renewed
):
    cluster.put(objects.lease(renewed))
    operator_ends(cluster, monkeypatch, "busy", "far", releases=False)
    started_at = cluster.now
    assert terminal.run("uninstall") == 0
    assert (cluster.now - started_at).total_seconds() == 30
    assert terminal.err.splitlines()[:-1] == [
        "Lease/kais-system/kais-operator: waiting 30 s for the Lease of kais-operator-abc to expire"
    ]
    assert "waiting" not in terminal.out, "what a pipe gets is what was done"


def test_an_operator_whose_clock_is_behind_keeps_its_finalizers_while_it_leads(
    terminal, cluster, monkeypatch
):
    get = cluster.get

    def renewed_late(kind, *arguments):
        if kind == "Lease":
            time = cluster.now - timedelta(hours=1)
            cluster.put(objects.lease(f"{time:%Y-%m-%dT%H:%M:%S.%fZ}", holder="laptop-1"))
        return get(kind, *arguments)

    monkeypatch.setattr(cluster, "get", renewed_late)
    assert terminal.run("uninstall") == ExitStatus.FAILED
    assert "laptop-1 still leads" in terminal.err
    assert (
        labels.FINALIZER in cluster.get("KnowledgeScope", "demo", "team")["metadata"]["finalizers"]
    )


def leases_after_the_stop(cluster, monkeypatch, *leases):
    """Have the Lease change so, one each second, when the Deployment is deleted."""
    get = cluster.get
    later = iter(leases)

    def changed(kind, namespace, name):
        if kind == "Lease" and cluster.deleted:
            lease = next(later)
            return None if lease is None else {**lease, "metadata": {**lease["metadata"]}}
        return get(kind, namespace, name)

    monkeypatch.setattr(cluster, "get", changed)


def test_an_operator_that_takes_over_the_lease_of_a_killed_one_is_named(
    terminal, cluster, monkeypatch
):
    killed = objects.lease("2029-12-31T18:00:00.000000Z")
    successor = objects.lease("2029-12-31T19:00:00.000000Z", holder="laptop-2")
    leases_after_the_stop(cluster, monkeypatch, *[killed] * 17, successor)
    cluster.put(killed)
    assert terminal.run("uninstall") == ExitStatus.FAILED
    assert "stop the operator laptop-2, then run it again" in terminal.err
    assert (
        labels.FINALIZER in cluster.get("KnowledgeScope", "demo", "team")["metadata"]["finalizers"]
    )


def test_an_operator_that_creates_its_deleted_lease_again_keeps_its_finalizers(
    terminal, cluster, monkeypatch
):
    old, new = (objects.lease(f"2029-12-31T{hour}:00:00.000000Z") for hour in (18, 19))
    leases_after_the_stop(cluster, monkeypatch, *[old] * 3, *[None] * 12, new)
    cluster.put(old)
    assert terminal.run("uninstall") == ExitStatus.FAILED
    assert "kais-operator-abc still leads" in terminal.err


def test_a_lease_that_stays_deleted_is_waited_for_no_longer_than_one_that_expires(
    terminal, cluster, monkeypatch
):
    old = objects.lease("2029-12-31T18:00:00.000000Z")
    leases_after_the_stop(cluster, monkeypatch, *[old] * 3, *[None] * 28)
    cluster.put(old)
    started_at = cluster.now
    assert terminal.run("uninstall") == 0
    assert (cluster.now - started_at).total_seconds() == 30


def test_there_is_no_dry_run_so_one_touches_nothing(terminal, cluster):
    assert terminal.run("uninstall", "--dry-run") == ExitStatus.USAGE
    assert "--dry-run" in terminal.err
    assert cluster.deleted == []
    assert labels.ABORT not in cluster.get("Mission", "demo", "busy")["metadata"]["annotations"]


def test_an_operator_that_only_does_not_lead_now_is_stopped_before_finalizers_go(terminal, cluster):
    cluster.put(objects.lease("2029-12-31T23:58:00.000000Z"))
    assert terminal.run("uninstall") == 0
    assert cluster.deleted == [
        ("Deployment", "kais-system", "kais-operator"),
        ("Job", "demo", "busy-a1"),
    ], "started again, it would put its finalizers back"


def test_the_kinds_go_only_when_that_is_asked_for(terminal, cluster):
    cluster.put(objects.lease("2029-12-31T23:58:00.000000Z"))
    assert terminal.run("uninstall", "--crds") == 0
    crds = [name for kind, _, name in cluster.deleted if kind == "CustomResourceDefinition"]
    assert len(crds) == 7
    assert "missions.kais.io" in crds


def test_a_refused_write_is_said_and_ends_it(terminal, cluster, monkeypatch):
    def refused(*_, **__):
        raise errors.Refused("change Mission/demo/busy: forbidden")

    monkeypatch.setattr(cluster, "patch", refused)
    assert terminal.run("uninstall") == ExitStatus.FAILED
    assert terminal.err == "error: change Mission/demo/busy: forbidden\n"
