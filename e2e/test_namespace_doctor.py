"""The main job: a Blueprint used twice, and the second use starts from what the first learnt."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installed import Installed, conditions
from e2e.support.waiting import wait_until
from knowledge_client import models

pytestmark = pytest.mark.e2e
EXAMPLE = Path(__file__).parent.parent / "examples" / "namespace-doctor"
BLUEPRINT = "namespace-doctor"


@dataclass(frozen=True)
class Use:
    """One use of the Blueprint through the CLI, and what the cluster shows of it."""

    instance: str
    output: str
    mission: dict[str, Any]

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.mission["status"]["result"]))

    @property
    def used(self) -> list[str]:
        return [str(fact) for fact in self.report["used_facts"]]


@dataclass(frozen=True)
class Doctor:
    """The example, applied to one namespace."""

    cluster: Installed
    namespace: str

    def use(self, *arguments: str) -> Use:
        names_before = {i["metadata"]["name"] for i in self.cluster.list("bpi", self.namespace)}
        completed = self.cluster.kais(
            "blueprint", "use", BLUEPRINT, "-n", self.namespace, *arguments
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        names_after = {i["metadata"]["name"] for i in self.cluster.list("bpi", self.namespace)}
        (instance,) = names_after - names_before
        mission = self.cluster.finished_mission(instance, self.namespace)
        return Use(instance, completed.stdout, mission)

    def receipt_of(self, use: Use) -> models.Receipt:
        with self.cluster.store(self.namespace) as store:
            return store.get_receipt(use.mission["status"]["knowledge"]["receipt"])

    def fact(self, fact_id: str) -> models.Fact:
        with self.cluster.store(self.namespace) as store:
            return store.get_fact(fact_id)


def doctor_in(cluster: Installed, namespace: str) -> Doctor:
    for manifest in ("rbac.yaml", "broken-pods.yaml", "blueprint.yaml"):
        cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLE / manifest))
    wait_until(
        lambda: conditions(cluster.get("bp", BLUEPRINT, namespace)),
        lambda observed: observed.get("Ready", {}).get("status") == "True",
        description="ready Blueprint",
    )
    wait_until(
        lambda: reasons(cluster, namespace),
        lambda observed: (
            bool({"ErrImagePull", "ImagePullBackOff"} & observed)
            and bool({"CrashLoopBackOff", "Error"} & observed)
        ),
        description="pods that fail as meant",
    )
    return Doctor(cluster, namespace)


def reasons(cluster: Installed, namespace: str) -> set[str]:
    waiting_reasons = set()
    for pod in cluster.list("pod", namespace):
        for status in pod["status"].get("containerStatuses", []):
            for state in (*status["state"].values(), *status.get("lastState", {}).values()):
                waiting_reasons.add(state.get("reason", ""))
    return waiting_reasons


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("doctor")


@pytest.fixture(scope="module")
def other_namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("doctor-elsewhere")


@pytest.fixture(scope="module")
def doctor(cluster: Installed, namespace: str) -> Doctor:
    return doctor_in(cluster, namespace)


@pytest.fixture(scope="module")
def first(doctor: Doctor) -> Use:
    return doctor.use()


@pytest.fixture(scope="module")
def second(doctor: Doctor, first: Use) -> Use:
    doctor.cluster.kubectl("delete", "bpi", first.instance, "-n", doctor.namespace, "--wait=true")
    wait_until(
        lambda: doctor.cluster.get("mission", first.instance, doctor.namespace),
        lambda body: body is None,
        description="first mission gone with its instance",
    )
    return doctor.use()


def test_the_first_use_explains_the_broken_pods_from_nothing(first: Use) -> None:
    causes = " ".join(json.dumps(entry) for entry in first.report["pods"])
    assert "127.0.0.1:1/missing:1" in causes
    assert "CrashLoopBackOff" in causes or "crash" in causes.lower()
    assert first.used == []
    assert first.mission["status"]["knowledge"]["injected"] == 0


def test_instances_have_generated_names(first: Use, second: Use) -> None:
    assert first.instance != second.instance
    assert {
        len(name.removeprefix(f"{BLUEPRINT}-")) for name in (first.instance, second.instance)
    } == {5}


def test_the_second_use_names_a_fact_that_is_in_its_receipt_and_came_from_the_first_mission(
    doctor: Doctor, first: Use, second: Use
) -> None:
    assert second.used, second.report
    assert set(second.used) <= set(doctor.receipt_of(second).facts)
    source = doctor.fact(second.used[0]).source
    assert {"type": "mission", "id": f"{doctor.namespace}/{first.instance}"} in [
        ref.model_dump() for ref in source.refs
    ]


def test_what_the_person_reads_names_the_facts(second: Use) -> None:
    assert second.used[0] in second.output
    assert "Succeeded" in second.output


def test_the_extractor_adds_what_recurs_and_repeats_nothing_that_a_cell_stored(
    doctor: Doctor, first: Use, second: Use
) -> None:
    with doctor.cluster.store(doctor.namespace) as store:
        facts = store.list_facts(scope=f"realm:{doctor.namespace}/formation:{BLUEPRINT}").facts
    extracted = [fact for fact in facts if fact.source.type == "mission_extraction"]
    assert first.mission["status"]["knowledge"]["extracted"] == 0
    assert second.mission["status"]["knowledge"]["extracted"] == len(extracted) >= 1
    stored = len(set(first.report["remembered_facts"]))
    assert first.mission["status"]["knowledge"]["remembered"] == stored >= 1
    assert first.mission["status"]["display"]["facts"] == f"0 in, {stored} out"


def test_a_use_without_injection_names_no_fact(doctor: Doctor, second: Use) -> None:
    control = doctor.use("--set", "useKnowledge=false")
    assert control.used == []
    assert control.mission["status"]["knowledge"]["injected"] == 0


def test_a_use_in_another_namespace_sees_none_of_it(
    cluster: Installed, other_namespace: str, second: Use
) -> None:
    elsewhere = doctor_in(cluster, other_namespace).use()
    assert elsewhere.used == []
    assert elsewhere.mission["status"]["knowledge"]["injected"] == 0


def test_a_new_kind_of_breakage_yields_a_new_fact_and_a_corrected_fact_is_named_no_more(
    doctor: Doctor, second: Use
) -> None:
    unmountable = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks-too-much", "namespace": doctor.namespace},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "127.0.0.1:1/another-missing:2",
                    "resources": {"requests": {"cpu": "10m"}},
                }
            ]
        },
    }
    doctor.cluster.apply(unmountable)
    wait_until(
        lambda: doctor.cluster.get("pod", "asks-too-much", doctor.namespace),
        lambda pod: (
            "waiting" in json.dumps((pod or {}).get("status", {}).get("containerStatuses", []))
        ),
        description="the new breakage",
    )
    third = doctor.use()
    assert third.report["remembered_facts"], third.report
    wrong = third.used[0]
    with doctor.cluster.store(doctor.namespace) as store:
        store.correct(wrong, models.CorrectIn(reason="the registry was moved"))
    fourth = doctor.use()
    assert wrong not in fourth.used
    assert wrong not in doctor.receipt_of(fourth).facts
    assert fourth.used


def test_the_blueprint_shows_its_uses_and_their_success(
    cluster: Installed, doctor: Doctor, second: Use
) -> None:
    uses = len(cluster.list("bpi", doctor.namespace)) + 1  # the first instance was deleted
    status = wait_until(
        lambda: (cluster.get("bp", BLUEPRINT, doctor.namespace) or {}).get("status", {}),
        lambda blueprint_status: (
            blueprint_status.get("usageCount") == uses and blueprint_status.get("succeeded") == uses
        ),
        description=f"{uses} uses in the Blueprint's status",
    )
    assert status["avgSuccessRate"] == 1
    assert 0 < status["successInterval"]["low"] < 1
    row = cluster.kubectl("get", "bp", BLUEPRINT, "-n", doctor.namespace)
    assert "USES" in row
    assert "100%" in row
