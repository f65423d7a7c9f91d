"""The API server of a namespace whose deployment `shop` has too little memory."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from incident_team import settings
from incident_team.deployments import DeploymentApi
from namespace_doctor.kubernetes_api import NamespaceReader

RECORDED = Path(__file__).parents[1] / "unit/examples/recorded/out-of-memory.json"
NEEDED_MI = 128
KEY = "key-of-the-server"


@dataclass
class ShopCluster:
    """Answers what the MCP servers of the incident team ask; a new limit makes a new revision."""

    limits: list[str] = field(default_factory=lambda: ["64Mi"])
    requests: list[httpx.Request] = field(default_factory=list)
    refusal: httpx.Response | None = None

    @property
    def is_available(self) -> bool:
        """Whether the pods of the present revision have enough memory."""
        return int(self.limits[-1].removesuffix("Mi")) >= NEEDED_MI

    def apps(self, folder: Path) -> tuple[settings.Settings, NamespaceReader, DeploymentApi]:
        """Return settings of a server and its two readers of this API server."""
        (folder / "token").write_text("token-of-the-account\n")
        (folder / "key").write_text(f"{KEY}\n")
        http = httpx.Client(base_url="https://api", transport=httpx.MockTransport(self.answer))
        files = {"INCIDENT_ACCOUNT_DIR": str(folder), "INCIDENT_KEY_FILE": str(folder / "key")}
        read = settings.read({"POD_NAMESPACE": "demo", **files}, ["reader"])
        token_file = folder / "token"
        pods = NamespaceReader(http, namespace="demo", token_file=token_file)
        return read, pods, DeploymentApi(http, namespace="demo", token_file=token_file)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer as an API server does."""
        self.requests.append(request)
        assert request.headers["Authorization"] == "Bearer token-of-the-account"
        if self.refusal is not None:
            return self.refusal
        name = request.url.path.rpartition("/")[2]
        if request.method == "PATCH":
            template = json.loads(request.content)["spec"]["template"]
            (container,) = template["spec"]["containers"]
            assert container["name"] == "app"
            self.limits.append(container["resources"]["limits"]["memory"])
            return httpx.Response(200, json=self.deployment(is_observed=False))
        if request.url.params.get("watch"):
            assert request.url.params["fieldSelector"] == "metadata.name=shop"
            bodies = [self.deployment(is_observed=False), self.deployment()]
            lines = [json.dumps({"type": "MODIFIED", "object": body}) for body in bodies]
            return httpx.Response(200, text="\n".join(lines))
        if name == "shop":
            return httpx.Response(200, json=self.deployment())
        lists = {
            "pods": [] if self.is_available else [self._pod()],
            "events": [],
            "deployments": [self.deployment()],
            "replicasets": [self._revision(number) for number in range(1, len(self.limits) + 1)],
        }
        if name not in lists:
            return httpx.Response(404, json={"message": "not found"})
        return httpx.Response(200, json={"items": lists[name], "metadata": {}})

    def deployment(self, *, is_observed: bool = True) -> dict[str, Any]:
        """Return the deployment; before it is observed, its status is that of the last revision."""
        revision = len(self.limits)
        available = int(self.is_available and is_observed)
        return {
            "metadata": {"name": "shop", "generation": revision, "resourceVersion": f"{revision}"},
            "spec": {"replicas": 1, "template": self._template(self.limits[-1])},
            "status": {
                "observedGeneration": revision if is_observed else revision - 1,
                "replicas": 1,
                "updatedReplicas": 1,
                "availableReplicas": available,
            },
        }

    def _revision(self, number: int) -> dict[str, Any]:
        return {
            "metadata": {
                "name": f"shop-{number}",
                "creationTimestamp": f"2026-11-2{number}T10:00:00Z",
                "annotations": {"deployment.kubernetes.io/revision": f"{number}"},
                "ownerReferences": [{"kind": "Deployment", "name": "shop", "controller": True}],
            },
            "spec": {"template": self._template(self.limits[number - 1])},
        }

    def _template(self, limit: str) -> dict[str, Any]:
        container = {"name": "app", "image": "shop:1", "resources": {"limits": {"memory": limit}}}
        return {"spec": {"containers": [container]}}

    def _pod(self) -> dict[str, Any]:
        pod: dict[str, Any] = copy.deepcopy(json.loads(RECORDED.read_text())["pod"])
        pod["metadata"]["name"] = "shop-1-x"
        pod["metadata"]["labels"]["pod-template-hash"] = "1"
        owner = {"kind": "ReplicaSet", "name": "shop-1", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
        return pod
