"""Service cells against a real API server: defaults, drift, names taken, and each condition's way.

There is no node: the Deployment controller makes pods, and the tests say what a kubelet would.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cluster.processes import Cluster, Start, wait_for

pytestmark = pytest.mark.cluster

MADE = ("deployments", "services", "serviceaccounts", "configmaps", "persistentvolumeclaims")


def service(image: str = "worker:1", **more: Any) -> dict[str, Any]:
    container = {"image": image, "ports": [{"containerPort": 8080}], **more}
    return {"mode": "Service", "container": container, "resources": {"cpuLimit": "0.5"}}


def team(name: str, *, scouts: int = 1, image: str = "worker:1", **spec: Any) -> dict[str, Any]:
    cells = [
        {"name": "lead", "spec": service()},
        {"name": "scout", "replicas": scouts, "spec": service(image)},
    ]
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name},
        "spec": {"cells": cells, **spec},
    }


def lone(name: str = "solo", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Cell",
        "metadata": {"name": name},
        "spec": {**service(), **spec},
    }


def pods_of(cluster: Cluster, cell: str) -> list[dict[str, Any]]:
    found = cluster.items("pods", labels=f"kais.io/cell={cell},kais.io/cell-mode=Service")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def pod_of(cluster: Cluster, cell: str) -> dict[str, Any]:
    return wait_for(lambda: pods_of(cluster, cell), what=f"a pod of {cell}")[0]


def tell(cluster: Cluster, pod: dict[str, Any], status: dict[str, Any]) -> None:
    """Say of a pod what its kubelet would."""
    name = pod["metadata"]["name"]
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)


def make_ready(cluster: Cluster, *cells: str) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for cell in cells:
        pod = pod_of(cluster, cell)
        told = [{"type": t, "status": "True"} for t in ("Ready", "ContainersReady")]
        state = {"running": {"startedAt": at}}
        tell(cluster, pod, {"phase": "Running", "conditions": told, **container(state)})


def container(state: dict[str, Any]) -> dict[str, Any]:
    is_ready = "running" in state
    told = {"name": "cell", "image": "x", "imageID": "", "ready": is_ready, "restartCount": 0}
    return {"containerStatuses": [{**told, "state": state}]}


def wait_condition(
    cluster: Cluster, kind: str, name: str, type_: str, expected: tuple[str, str]
) -> str:
    """Wait until a condition has a status and a reason; gives its message."""
    wait_for(
        lambda: (
            (found := cluster.condition(kind, name, type_))
            and (found["status"], found["reason"]) == expected
        ),
        what=f"{kind}/{name} {type_} becomes {expected}: {cluster.status(kind, name)}",
    )
    return str(cluster.condition(kind, name, type_)["message"])


def test_a_team_of_services_becomes_ready_and_then_nothing_is_written(
    cluster: Cluster, start: Start
) -> None:
    operator = start()
    operator.wait_ready()
    cluster.apply(team("team", workspace={"size": "1024Mi"}))
    wait_condition(cluster, "formations", "team", "Applied", ("True", "Applied"))
    make_ready(cluster, "team-lead-0", "team-scout-0")
    wait_condition(cluster, "formations", "team", "Ready", ("True", "Ready"))
    time.sleep(3)
    before = cluster.versions(*MADE, "formations", "cells")
    operator.end()
    again = start(name="second")
    again.wait_ready()
    time.sleep(5)
    assert cluster.versions(*MADE, "formations", "cells") == before
    columns = cluster.kubectl("get", "cell", "team-lead-0", "--no-headers").split()
    assert columns[:5] == ["team-lead-0", "Running", "worker:1", "-", "True"]
    columns = cluster.kubectl("get", "formation", "team", "--no-headers").split()
    assert columns[:4] == ["team", "2/2", "True", "-"]


def test_each_condition_of_a_service_cell_goes_and_comes_back(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(lone())
    make_ready(cluster, "solo")
    for type_ in ("Applied", "PodReady", "Registered", "Ready"):
        wait_for(
            lambda t=type_: cluster.condition("cells", "solo", t).get("status") == "True",
            what=f"{type_} is True",
        )
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "nowhere:1 not found"}}
    told = [{"type": t, "status": "False"} for t in ("Ready", "ContainersReady")]
    tell(cluster, pod_of(cluster, "solo"), {"conditions": told, **container(waiting)})
    said = wait_condition(cluster, "cells", "solo", "PodReady", ("False", "ImagePullFailed"))
    assert said.endswith(": ErrImagePull: nowhere:1 not found")
    wait_condition(cluster, "cells", "solo", "Ready", ("False", "ImagePullFailed"))
    make_ready(cluster, "solo")
    wait_condition(cluster, "cells", "solo", "PodReady", ("True", "PodRunning"))
    wait_condition(cluster, "cells", "solo", "Ready", ("True", "Ready"))
    events = cluster.items("events")
    about = [(e["type"], e["reason"]) for e in events if e["involvedObject"]["kind"] == "Cell"]
    assert ("Warning", "ImagePullFailed") in about


@pytest.mark.parametrize("kind", ["deployment", "service"])
def test_a_strangers_child_is_left_alone_and_its_end_heals(
    cluster: Cluster, start: Start, kind: str
) -> None:
    start().wait_ready()
    making = {
        "deployment": ("create", "deployment", "solo", "--image=other:1", "--replicas=0"),
        "service": ("create", "service", "clusterip", "solo", "--tcp=1234"),
    }
    cluster.kubectl(*making[kind])
    before = cluster.versions(f"{kind}s")[f"{kind}s/solo"]
    cluster.apply(lone())
    said = wait_condition(cluster, "cells", "solo", "Applied", ("False", "NameTaken"))
    assert f"{kind.title()}/{cluster.namespace}/solo exists already" in said
    if kind == "service":
        assert cluster.versions("services")["services/solo"] == before
    image = [d["spec"]["template"]["spec"]["containers"] for d in cluster.items("deployments")]
    assert kind != "deployment" or image[0][0]["image"] == "other:1"
    cluster.kubectl("delete", kind, "solo")
    cluster.kubectl("annotate", "cell", "solo", "look=again")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))


def test_scaling_a_team_leaves_the_pod_templates_of_the_others_as_they_are(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(team("team", scouts=2))
    wait_condition(cluster, "formations", "team", "Applied", ("True", "Applied"))
    pods = {name: pod_of(cluster, name)["metadata"]["uid"] for name in ("team-lead-0",)}
    wait_for(lambda: len(templates(cluster)) == 3, what="a Deployment for each cell")
    before = templates(cluster)
    cluster.apply(team("team", scouts=4))
    wait_for(lambda: len(templates(cluster)) == 5, what="two more Deployments")
    after = templates(cluster)
    assert {name: after[name] for name in before} == before
    cluster.apply(team("team", scouts=1))
    wait_for(lambda: len(templates(cluster)) == 2, what="three Deployments fewer")
    assert templates(cluster).items() <= before.items()
    assert pod_of(cluster, "team-lead-0")["metadata"]["uid"] == pods["team-lead-0"]
    routes = cluster.get("configmaps", "topology-team")
    assert routes is not None
    assert json.loads(routes["data"]["routes.json"]) == {
        "lead-0": ["scout-0"],
        "scout-0": ["lead-0"],
    }


def templates(cluster: Cluster) -> dict[str, Any]:
    return {
        body["metadata"]["name"]: body["spec"]["template"] for body in cluster.items("deployments")
    }


def test_a_changed_template_rolls_only_its_cells_and_keeps_their_place(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.apply(team("team"))
    wait_for(lambda: len(templates(cluster)) == 2, what="a Deployment for each cell")
    before = templates(cluster)
    cluster.apply(team("team", image="worker:2"))
    wait_for(
        lambda: images(cluster)["team-scout-0"] == "worker:2", what="the template is the new one"
    )
    after = templates(cluster)
    assert after["team-lead-0"] == before["team-lead-0"]
    kept = ("volumes", "serviceAccountName", "tolerations")
    assert all(
        after["team-scout-0"]["spec"][key] == before["team-scout-0"]["spec"][key] for key in kept
    )
    made = cluster.get("cells", "team-scout-0")
    assert made is not None
    assert made["spec"]["formationRef"] == "team"
    time.sleep(2)
    versions = cluster.versions("deployments", "configmaps")
    cluster.kubectl("annotate", "formation", "team", "look=again")
    time.sleep(3)
    settled = cluster.versions("deployments", "configmaps")
    assert settled["configmaps/topology-team"] == versions["configmaps/topology-team"]
    assert templates(cluster) == after


def images(cluster: Cluster) -> dict[str, str]:
    return {name: t["spec"]["containers"][0]["image"] for name, t in templates(cluster).items()}


def test_an_edited_deployment_is_brought_back(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.kubectl("set", "image", "deployment/solo", "cell=evil:1")
    wait_for(lambda: images(cluster)["solo"] == "worker:1", what="the image is brought back")
    cluster.kubectl("scale", "deployment/solo", "--replicas=3")
    wait_for(
        lambda: cluster.items("deployments")[0]["spec"]["replicas"] == 1,
        what="the replicas are brought back",
    )


def test_a_port_that_comes_and_goes_makes_the_service_anew(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.apply(lone(container={"image": "worker:1"}))
    wait_for(lambda: cluster_ip(cluster) == "None", what="the Service is headless")
    cluster.apply(lone())
    wait_for(lambda: cluster_ip(cluster) not in ("", "None"), what="the Service has an address")


def cluster_ip(cluster: Cluster) -> str:
    found = cluster.get("services", "solo")
    return str(found["spec"].get("clusterIP")) if found else ""


def test_a_quota_that_keeps_the_pod_away_is_told_in_its_words(
    cluster: Cluster, start: Start
) -> None:
    cluster.kubectl("create", "quota", "none", "--hard=pods=0")
    start().wait_ready()
    cluster.apply(lone())
    said = wait_condition(cluster, "cells", "solo", "PodReady", ("False", "PodNotCreated"))
    assert "exceeded quota: none" in said


def test_a_refused_child_is_told_in_the_api_servers_words_and_mended(
    cluster: Cluster, start: Start
) -> None:
    cluster.kubectl("create", "quota", "none", "--hard=count/deployments.apps=0")
    start().wait_ready()
    cluster.apply(lone())
    said = wait_condition(cluster, "cells", "solo", "Applied", ("False", "ApplyFailed"))
    assert "exceeded quota: none" in said
    cluster.kubectl("delete", "quota", "none")
    cluster.kubectl("annotate", "cell", "solo", "look=again")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))


def test_a_cell_that_becomes_a_task_keeps_no_deployment(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(lone())
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.apply(lone(mode="Task"))
    wait_condition(cluster, "cells", "solo", "Ready", ("True", "Standby"))
    wait_for(lambda: not cluster.items("deployments"), what="the Deployment is gone")
    assert [s for s in cluster.items("services") if s["metadata"]["name"] == "solo"] == []


def test_deleting_a_team_takes_everything_of_it(cluster: Cluster, start: Start) -> None:
    start().wait_ready()
    cluster.apply(team("team", workspace={}))
    wait_condition(cluster, "formations", "team", "Applied", ("True", "Applied"))
    cluster.kubectl("delete", "formation", "team")
    selector = "app.kubernetes.io/managed-by=kais,kais.io/formation=team"
    kinds = ("cells", "deployments", "services", "serviceaccounts", "configmaps")
    wait_for(
        lambda: not [item for kind in kinds for item in cluster.items(kind, labels=selector)],
        what="every child is gone",
    )


def test_leave_to_share_an_account_is_given_and_taken_back_at_once(
    cluster: Cluster, start: Start
) -> None:
    start().wait_ready()
    cluster.kubectl("create", "serviceaccount", "shared")
    cluster.apply(lone(serviceAccountName="shared"))
    wait_condition(cluster, "cells", "solo", "Applied", ("False", "AccountNotAllowed"))
    began = time.monotonic()
    cluster.kubectl("annotate", "serviceaccount", "shared", "kais.io/allow-cells=true")
    wait_condition(cluster, "cells", "solo", "Applied", ("True", "Applied"))
    cluster.kubectl("annotate", "serviceaccount", "shared", "kais.io/allow-cells-")
    wait_condition(cluster, "cells", "solo", "Applied", ("False", "AccountNotAllowed"))
    assert time.monotonic() - began < 15, "not by the looks of every 30 s and 5 min"
