"""Which keys a watch event concerns."""

from __future__ import annotations

import pytest

from kais import labels, names
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.manager import reconcile_requests
from kais_operator.manager.reference_index import ReferenceIndex
from kais_operator.planning.plan import Body, ObjectRef

REALM = "Realm//demo"


def body(name: str, *, owner: tuple[str, str] | None = None, **report: object) -> Body:
    metadata: Body = {"name": name, "namespace": "demo", "labels": {labels.MANAGED_BY: "kais"}}
    metadata["labels"] |= report.pop("labels", {})  # type: ignore[operator]
    metadata["annotations"] = report.pop("annotations", {})
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {"metadata": metadata, **report}


def keys(
    kind: str, subject: Body, references: ReferenceIndex | None = None, *, is_deleted: bool = False
) -> list[str]:
    requests = reconcile_requests.requests_for_event(
        kind,
        subject,
        is_deleted=is_deleted,
        reference_index=references or ReferenceIndex(),
        operator_namespace="kais-system",
    )
    return [str(route.ref) for route in requests]


CELL = {labels.CELL: "team-lead-0", labels.FORMATION: "team", labels.INSTANCE: "use"}
CASES = {
    "a blueprint concerns itself and its realm": (
        "Blueprint",
        body("bp"),
        ["Blueprint/demo/bp", REALM],
    ),
    "a revision concerns its blueprint too": (
        "BlueprintRevision",
        body("bp-r00001", spec={"blueprint": "bp"}),
        ["BlueprintRevision/demo/bp-r00001", REALM, "Blueprint/demo/bp"],
    ),
    "a formation concerns the instance that owns it": (
        "Formation",
        body("f", owner=("BlueprintInstance", "use")),
        ["Formation/demo/f", REALM, "BlueprintInstance/demo/use"],
    ),
    "a cell concerns its formation": (
        "Cell",
        body("team-lead-0", owner=("Formation", "team"), labels=CELL),
        ["Cell/demo/team-lead-0", REALM, "Formation/demo/team"],
    ),
    "a cell that lost its owner concerns the formation of its label": (
        "Cell",
        body("team-lead-0", labels=CELL),
        ["Cell/demo/team-lead-0", REALM, "Formation/demo/team"],
    ),
    "a job concerns the mission that owns it": (
        "Job",
        body("m-a1", owner=("Mission", "m"), labels={**CELL, labels.MISSION: "m"}),
        ["Mission/demo/m"],
    ),
    "the pod of an attempt concerns its mission and nobody above": (
        "Pod",
        body("m-a1-x", owner=("Job", "m-a1"), labels={**CELL, labels.MISSION: "m"}),
        ["Mission/demo/m"],
    ),
    "an account concerns its cell": (
        "ServiceAccount",
        body("team-lead-0", owner=("Cell", "team-lead-0"), labels=CELL),
        ["Cell/demo/team-lead-0"],
    ),
    "the account of a realm's people concerns the realm": (
        "ServiceAccount",
        body(labels.USER_ACCOUNT),
        [REALM],
    ),
    "a map of nobody, elsewhere, concerns nobody": ("ConfigMap", body("m"), []),
}


@pytest.mark.parametrize(("kind", "of", "expected"), CASES.values(), ids=CASES.keys())
def test_an_event_concerns(kind, of, expected):
    assert keys(kind, of) == expected


def test_an_account_of_somebody_concerns_at_once_the_cells_that_borrow_it():
    references = ReferenceIndex()
    borrower = body("c", spec={"serviceAccountName": "shared"})
    references.update(ObjectRef("Cell", "demo", "c"), borrower, is_deleted=False)
    account = {"metadata": {"name": "shared", "namespace": "demo"}}
    requests = reconcile_requests.requests_for_event(
        "ServiceAccount",
        account,
        is_deleted=False,
        reference_index=references,
        operator_namespace="kais-system",
    )
    assert [(str(route.ref), route.delay_s) for route in requests] == [("Cell/demo/c", 0.0)]
    elsewhere = {"metadata": {"name": "shared", "namespace": "other"}}
    assert keys("ServiceAccount", elsewhere, references) == []
    references.update(ObjectRef("Cell", "demo", "c"), body("c", spec={}), is_deleted=False)
    assert keys("ServiceAccount", account, references) == []


def test_an_outbox_in_the_operators_namespace_is_a_key_of_its_own():
    subject = body("kais-outbox-1")
    subject["metadata"]["namespace"] = "kais-system"
    assert keys("ConfigMap", subject) == ["Outbox/kais-system/kais-outbox-1"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_outbox_that_deletes_a_scope_concerns_the_scopes_of_its_namespace(
    is_deleted: bool,
) -> None:
    references = ReferenceIndex()
    for namespace in ("demo", "other"):
        scope = ObjectRef("KnowledgeScope", namespace, "memory")
        references.update(scope, body("memory"), is_deleted=False)
    calls = [outbox.delete_scope("realm:demo/formation:team")]
    subject = outbox.body("kais-system", key=outbox.key_of_scope("uid-1"), calls=calls)
    assert keys("ConfigMap", subject, references, is_deleted=is_deleted) == [
        "Outbox/kais-system/kais-outbox-scope-uid-1",
        "KnowledgeScope/demo/memory",
    ]


def test_a_formation_and_its_cells_concern_the_missions_that_wait_for_them():
    references = ReferenceIndex()
    mission = body("m", spec={"formationRef": "team"})
    references.update(ObjectRef("Mission", "demo", "m"), mission, is_deleted=False)
    assert "Mission/demo/m" in keys("Formation", body("team"), references)
    cell = body("team-lead-0", owner=("Formation", "team"))
    assert "Mission/demo/m" in keys("Cell", cell, references)
    assert "Mission/demo/m" not in keys("Formation", body("other"), references)


def test_a_formation_whose_scope_changes_concerns_its_cells():
    references = ReferenceIndex()
    member = body("lead", spec={"formationRef": "f"})
    references.update(ObjectRef("Cell", "demo", "lead"), member, is_deleted=False)

    def concerns(of: Body, *, is_deleted: bool = False) -> bool:
        references.update(ObjectRef("Formation", "demo", "f"), of, is_deleted=is_deleted)
        return "Cell/demo/lead" in keys("Formation", of, references, is_deleted=is_deleted)

    assert concerns(body("f"))  # it was made after its cell
    assert not concerns(body("f", status={"readyCells": 1}))
    assert concerns(body("f", spec={"knowledge": {"scope": "other"}}))
    assert not concerns(body("f", spec={"knowledge": {"scope": "other"}}))
    assert concerns(body("f"), is_deleted=True)
    sibling = body("helper", spec={"formationRef": "f"}, owner=("Formation", "f"))
    assert "Cell/demo/lead" not in keys("Cell", sibling, references)


def test_a_mission_with_its_outcome_waits_for_nobody():
    references = ReferenceIndex()
    ref = ObjectRef("Mission", "demo", "m")
    references.update(ref, body("m", spec={"formationRef": "team"}), is_deleted=False)
    ended = body("m", spec={"formationRef": "team"}, annotations={labels.OUTCOME: "Succeeded"})
    references.update(ref, ended, is_deleted=False)
    assert references.referrers(ObjectRef("Formation", "demo", "team")) == frozenset()


def test_a_mission_of_one_cell_waits_for_that_cell():
    references = ReferenceIndex()
    ref = ObjectRef("Mission", "demo", "m")
    references.update(ref, body("m", spec={"cellRef": "solo"}), is_deleted=False)
    assert references.referrers(ObjectRef("Cell", "demo", "solo")) == {ref}
    references.update(ref, body("m"), is_deleted=True)
    assert references.referrers(ObjectRef("Cell", "demo", "solo")) == frozenset()


@pytest.mark.parametrize(
    ("spec", "marks", "waits"),
    [
        ({"blueprintRef": {"name": "bp"}}, {}, True),
        ({"blueprintRef": {"name": "bp"}}, {labels.RUN_ID: "r"}, False),
        ({"blueprintRef": {"name": "bp"}, "updatePolicy": "Automatic"}, {labels.RUN_ID: "r"}, True),
        ({"blueprintRef": {"name": "bp"}}, {labels.RUN_ID: "r", labels.RUN_OBJECT: "other"}, True),
    ],
    ids=[
        "whose run has not begun",
        "whose run has begun",
        "that follows new revisions",
        "that is a copy and has its original's run",
    ],
)
def test_an_instance_waits_for_its_blueprint(spec, marks, waits):
    references = ReferenceIndex()
    use = body("use", spec=spec, status={"revisionInUse": 1}, annotations=marks)
    references.update(ObjectRef("BlueprintInstance", "demo", "use"), use, is_deleted=False)
    revision = body("bp-r00001", spec={"blueprint": "bp"})
    for kind, changed in (("BlueprintRevision", revision), ("Blueprint", body("bp"))):
        assert ("BlueprintInstance/demo/use" in keys(kind, changed, references)) == waits


def test_an_instance_that_goes_concerns_its_blueprint():
    use = body("use", spec={"blueprintRef": {"name": "bp"}})
    assert "Blueprint/demo/bp" in keys("BlueprintInstance", use, is_deleted=True)
    assert "Blueprint/demo/bp" not in keys("BlueprintInstance", use)


def test_a_scope_that_goes_concerns_the_other_scopes_of_its_namespace():
    references = ReferenceIndex()
    for name in ("older", "younger"):
        references.update(ObjectRef("KnowledgeScope", "demo", name), body(name), is_deleted=False)
    references.update(ObjectRef("KnowledgeScope", "demo", "older"), body("older"), is_deleted=True)
    result = keys("KnowledgeScope", body("older"), references, is_deleted=True)
    assert "KnowledgeScope/demo/younger" in result


def test_a_label_that_is_cut_names_the_whole_name():
    name = "m" * 80
    references = ReferenceIndex()
    references.update(ObjectRef("Mission", "demo", name), body(name), is_deleted=False)
    pod = body("p", owner=("Job", "j"), labels={labels.MISSION: names.label_value(name)})
    assert keys("Pod", pod, references) == [f"Mission/demo/{name}"]


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}
STARTING: dict[str, tuple[str, Body, float]] = {
    "a pod that is not ready may wait": ("Pod", {"status": NOT_READY}, 0.5),
    "a pod without a status may wait": ("Pod", {}, 0.5),
    "a pod that is ready is reported soon": ("Pod", {"status": READY}, 0.1),
    "a Deployment without a ready pod may wait": ("Deployment", {"status": {"replicas": 1}}, 0.5),
    "a Deployment with a ready pod is reported soon": (
        "Deployment",
        {"status": {"readyReplicas": 1}},
        0.1,
    ),
    "an account is reported soon": ("ServiceAccount", {}, 0.1),
}


@pytest.mark.parametrize(("kind", "content", "delay_s"), STARTING.values(), ids=STARTING)
def test_a_child_that_starts_is_reported_to_its_cell_later(
    kind: str, content: Body, delay_s: float
) -> None:
    (request,) = reconcile_requests.requests_for_event(
        kind,
        body("team-lead-0", owner=("Cell", "team-lead-0"), labels=CELL, **content),
        is_deleted=False,
        reference_index=ReferenceIndex(),
        operator_namespace="kais-system",
    )
    assert (str(request.ref), request.delay_s) == ("Cell/demo/team-lead-0", delay_s)


@pytest.mark.parametrize(("status", "delay_s"), [({}, 2.5), (NOT_READY, 0.5)])
def test_a_pod_that_starts_is_reported_to_a_cell_without_a_status_even_later(
    status: Body, delay_s: float
) -> None:
    references = ReferenceIndex()
    cell = body("team-lead-0", labels=CELL, spec={}, status=status)
    references.update(ObjectRef("Cell", "demo", "team-lead-0"), cell, is_deleted=False)
    (request,) = reconcile_requests.requests_for_event(
        "Pod",
        body("team-lead-0-x", labels=CELL),
        is_deleted=False,
        reference_index=references,
        operator_namespace="kais-system",
    )
    assert (str(request.ref), request.delay_s) == ("Cell/demo/team-lead-0", delay_s)


def test_the_pod_that_a_ready_cell_loses_ranks_ahead_of_pods_that_start() -> None:
    index, cell = ReferenceIndex(), ObjectRef("Cell", "demo", "team-lead-0")
    index.update(cell, body("team-lead-0", status=READY), is_deleted=False)

    def rank_s() -> float:
        (request,) = reconcile_requests.requests_for_event(
            "Pod",
            body("team-lead-0-x", labels=CELL, status=NOT_READY),
            is_deleted=False,
            reference_index=index,
            operator_namespace="kais-system",
        )
        return reconcile_requests.priority_delay_s(request.ref, request.delay_s, index)

    assert rank_s() == reconcile_requests.PRIORITY_DELAYS_S["Cell"]
    index.update(cell, body("team-lead-0", status=NOT_READY), is_deleted=False)
    assert rank_s() == reconcile_requests.STARTING_PRIORITY_DELAY_S


def test_a_job_of_a_mission_is_reported_soon() -> None:
    (request,) = reconcile_requests.requests_for_event(
        "Pod",
        body("m-a1-x", owner=("Job", "m-a1"), labels={labels.MISSION: "m"}, status=NOT_READY),
        is_deleted=False,
        reference_index=ReferenceIndex(),
        operator_namespace="kais-system",
    )
    assert request.delay_s == 0.1


@pytest.mark.parametrize(("status", "delay_s"), [(READY, 0.5), (NOT_READY, 1.0), ({}, 1.0)])
def test_a_cell_that_is_not_ready_is_reported_to_its_formation_later(
    status: Body, delay_s: float
) -> None:
    requests = reconcile_requests.requests_for_event(
        "Cell",
        body("team-lead-0", owner=("Formation", "team"), labels=CELL, status=status),
        is_deleted=False,
        reference_index=ReferenceIndex(),
        operator_namespace="kais-system",
    )
    (of_formation,) = [request for request in requests if request.ref.kind == "Formation"]
    assert of_formation.delay_s == delay_s


@pytest.mark.parametrize(
    ("annotations", "status", "delay_s", "expected"),
    [
        pytest.param({}, {}, 0.0, 0.0, id="new"),
        pytest.param({}, {}, 1.0, 0.0, id="waits to start"),
        pytest.param({labels.ATTEMPTS: "[]"}, {}, 1.0, -30.0, id="attempt stamped"),
        pytest.param({}, {"attempt": 1}, 1.0, -30.0, id="attempt reported"),
        pytest.param({}, {"attempt": 1}, 0.0, -30.0, id="its task has ended"),
        pytest.param({labels.OUTCOME: "Failed"}, {"attempt": 1}, 0.0, -30.0, id="ended"),
        pytest.param({}, {"attempt": 1, "outcome": "Failed"}, 1.0, 0.0, id="reported as ended"),
    ],
)
def test_a_mission_under_way_ranks_ahead_of_those_that_have_not_started(
    annotations: dict[str, str], status: Body, delay_s: float, expected: float
) -> None:
    ref, index = ObjectRef("Mission", "demo", "m"), ReferenceIndex()
    mission = body("m", annotations=annotations, spec={"cellRef": "solo"}, status=status)
    index.update(ref, mission, is_deleted=False)
    assert reconcile_requests.priority_delay_s(ref, delay_s, index) == expected
    index.update(ref, mission, is_deleted=True)
    assert reconcile_requests.priority_delay_s(ref, delay_s, index) == 0


def test_a_delayed_report_about_children_ranks_behind_new_objects() -> None:
    cell = ObjectRef("Cell", "demo", "solo")
    assert reconcile_requests.priority_delay_s(cell, 0.0, ReferenceIndex()) == 0
    assert reconcile_requests.priority_delay_s(cell, 0.1, ReferenceIndex()) == 3
    assert reconcile_requests.priority_delay_s(cell, 0.5, ReferenceIndex()) == 20


def test_a_mission_that_is_gone_concerns_what_it_may_have_reserved_on() -> None:
    index = ReferenceIndex()
    team = body("lead", spec={"formationRef": "team"})
    index.update(ObjectRef("Cell", "demo", "lead"), team, is_deleted=False)
    for spec, accounts in (
        ({"formationRef": "team"}, ["Formation/demo/team"]),
        ({"cellRef": "lead"}, ["Cell/demo/lead", "Formation/demo/team"]),
        ({"cellRef": "solo"}, ["Cell/demo/solo"]),
    ):
        mission = body("m", spec=spec)
        assert keys("Mission", mission, index) == ["Mission/demo/m", REALM]
        gone = keys("Mission", mission, index, is_deleted=True)
        assert gone == ["Mission/demo/m", REALM, *accounts]
