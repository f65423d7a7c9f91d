"""Reads the deployments of one namespace and their revisions, and sets memory limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from namespace_doctor.kubernetes_api import ClusterError

Body = Mapping[str, Any]
_REVISION = "deployment.kubernetes.io/revision"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MERGE = "application/strategic-merge-patch+json"
_REASONS_BY_STATUS = {
    401: "the token is not accepted",
    403: "the ServiceAccount may not do that; its Role is in rbac.yaml",
    404: "there is no such deployment",
}


class DeploymentApi:
    """Reads and patches deployments; the token is read again for each request."""

    def __init__(self, http: httpx.Client, *, namespace: str, token_file: Path) -> None:
        self._http = http
        self._namespace = namespace
        self._token_file = token_file

    def all(self) -> list[Body]:
        """Return the deployments."""
        return list(self._read("deployments", "list deployments")["items"])

    def get(self, name: str) -> Body:
        """Return one deployment."""
        return self._read(f"deployments/{_checked(name)}", f"read deployment {name}")

    def replica_sets(self, name: str) -> list[Body]:
        """Return the ReplicaSets of a deployment, newest revision first."""
        owned = [
            body
            for body in self._read("replicasets", "list replicasets")["items"]
            for owner in body["metadata"].get("ownerReferences", ())
            if owner.get("controller") and (owner["kind"], owner["name"]) == ("Deployment", name)
        ]
        return sorted(owned, key=revision, reverse=True)

    def set_memory_limit(self, name: str, container: str, limit: str) -> Body:
        """Set the memory limit of one container and nothing else; return the deployment."""
        resources = {"limits": {"memory": limit}}
        template = {"spec": {"containers": [{"name": container, "resources": resources}]}}
        operation = f"patch deployment {name}"
        with self._errors(operation):
            response = self._http.patch(
                self._path(f"deployments/{_checked(name)}"),
                content=json.dumps({"spec": {"template": template}}),
                headers={**self._headers(), "Content-Type": _MERGE},
            )
        return self._body(response, operation)

    def wait_until_rolled_out(self, deployment: Body, *, timeout_s: int) -> Body:
        """Watch a deployment until its rollout completes or times out; return its latest state."""
        name = str(deployment["metadata"]["name"])
        parameters = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": str(deployment["metadata"]["resourceVersion"]),
            "timeoutSeconds": str(timeout_s),
        }
        operation = f"watch deployment {name}"
        with (
            self._errors(operation),
            self._http.stream(
                "GET",
                self._path("deployments"),
                params=parameters,
                headers=self._headers(),
                timeout=httpx.Timeout(30, read=timeout_s + 10),
            ) as response,
        ):
            if response.status_code != httpx.codes.OK:
                response.read()
                return self._body(response, operation)
            for line in response.iter_lines():
                event = json.loads(line)
                if event["type"] not in {"ADDED", "MODIFIED"}:
                    break
                deployment = event["object"]
                if is_rolled_out(deployment):
                    break
        return deployment

    def _read(self, path: str, operation: str) -> Body:
        with self._errors(operation):
            response = self._http.get(self._path(path), headers=self._headers())
        return self._body(response, operation)

    def _path(self, rest: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/{rest}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}

    @contextmanager
    def _errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise ClusterError(f"{operation}: no token ({exc})") from exc
        except httpx.HTTPError as exc:
            raise ClusterError(f"{operation}: no answer from the API server ({exc})") from exc

    def _body(self, response: httpx.Response, operation: str) -> Body:
        if response.status_code != httpx.codes.OK:
            reason = _REASONS_BY_STATUS.get(response.status_code) or _message(response)
            raise ClusterError(
                f"{operation} of namespace {self._namespace}: {response.status_code}, {reason}"
            )
        body: Body = response.json()
        return body


def revision(body: Body) -> int:
    """Return the number of a revision; 0 if there is none."""
    text = body["metadata"].get("annotations", {}).get(_REVISION, "")
    return int(text) if text.isdigit() else 0


def containers(body: Body) -> list[Body]:
    """Return the containers of the pods that a deployment or ReplicaSet makes."""
    return list(body["spec"]["template"]["spec"]["containers"])


def memory_limit(container: Body) -> str:
    """Return the memory limit of a container; `none` if it has none."""
    return str(container.get("resources", {}).get("limits", {}).get("memory", "none"))


def is_rolled_out(deployment: Body) -> bool:
    """Whether all pods of a deployment have its current revision and are available."""
    wanted, status = int(deployment["spec"].get("replicas", 1)), deployment.get("status", {})
    counts = [status.get(f"{name}eplicas", 0) for name in ("r", "updatedR", "availableR")]
    is_observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return is_observed and counts == [wanted] * 3


def _checked(name: str) -> str:
    """Return a name, which becomes a part of a path."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"deployment {name}: a name consists of lower-case letters, digits, dots and hyphens"
        )
    return name


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
