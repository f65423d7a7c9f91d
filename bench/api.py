"""The API server as the benches use it: creates, and watches that note when things are there."""

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import yaml

NAMESPACE = "bench"
INSTANCES = f"/apis/kais.io/v1/namespaces/{NAMESPACE}/blueprintinstances"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
_LONGEST_S = 600


@dataclass(frozen=True)
class Uses:
    """The objects of one kind that a burst creates.

    Attributes:
        path: of their collection.
        body: gives the object of a name.
        is_complete: whether all that it stands for was applied.
    """

    path: str
    body: Callable[[str], Mapping[str, object]]
    is_complete: Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Burst:
    """What became of a burst: seconds from create to Applied of each, and until all was there."""

    samples: list[float]
    seconds_to_applied: float
    seconds_to_workloads: float


class Api:
    """One client; `close` it."""

    def __init__(self, kubeconfig: Path) -> None:
        loaded = yaml.safe_load(kubeconfig.read_text())
        cluster, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
        context = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
        with tempfile.TemporaryDirectory() as folder:
            crt, key = Path(folder, "crt"), Path(folder, "key")
            crt.write_text(_text(user["client-certificate-data"]))
            key.write_text(_text(user["client-key-data"]))
            context.load_cert_chain(crt, key)
        self._http = httpx.AsyncClient(
            base_url=cluster["server"],
            verify=context,
            headers={"User-Agent": "kais-bench"},
            timeout=httpx.Timeout(60, read=300, pool=None),  # a burst waits for connections
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def create(self, path: str, body: Mapping[str, object]) -> None:
        """Create an object; a refusal ends the bench with the server's words."""
        answer = await self._http.post(path, json=body)
        if answer.status_code >= 300:
            raise SystemExit(f"{path}: {answer.text}")

    async def create_when_served(self, path: str, body: Mapping[str, object]) -> None:
        """The same right after a CRD was made, when its kind answers 404 or 429 for a while."""
        await self._list_version(path)
        await self.create(path, body)

    async def burst(
        self, prefix: str, count: int, *, workloads: int = 0, uses: Uses | None = None
    ) -> Burst:
        """Create so many instances at once; wait for all to be Applied and their workloads."""
        made = uses or BLUEPRINT_INSTANCES
        created: dict[str, float] = {}
        watching = [
            asyncio.create_task(self._completion_times(made.path, prefix, count, made.is_complete))
        ]
        if workloads:
            watching += [
                asyncio.create_task(
                    self._completion_times(path, prefix, count * workloads, _is_there)
                )
                for path in (DEPLOYMENTS, SERVICES)
            ]
        await asyncio.sleep(0.05)  # the watches begin
        begin = time.perf_counter()

        async def create_instance(number: int) -> None:
            name = f"{prefix}-{number}"
            created[name] = time.perf_counter()
            await self.create(made.path, made.body(name))

        await asyncio.gather(*(create_instance(number) for number in range(count)))
        applied, *workload_times = await asyncio.wait_for(asyncio.gather(*watching), _LONGEST_S)
        return Burst(
            [applied[name] - created[name] for name in created],
            max(applied.values()) - begin,
            max((at for times in workload_times for at in times.values()), default=begin) - begin,
        )

    async def _list_version(self, path: str) -> str:
        """The list's resourceVersion."""
        error_text = ""
        for _ in range(60):
            answer = await self._http.get(path, params={"limit": 1})
            if answer.status_code == HTTPStatus.OK:
                return str(answer.json()["metadata"]["resourceVersion"])
            error_text = answer.text
            await asyncio.sleep(0.5)
        raise SystemExit(f"{path}: {error_text}")

    async def _completion_times(
        self, path: str, prefix: str, count: int, is_complete: Callable[[dict[str, Any]], bool]
    ) -> dict[str, float]:
        """When each of so many objects was first seen done, by name."""
        times: dict[str, float] = {}
        version = await self._list_version(path)
        # The API server ends the watch of a client that reads slowly; the next one goes on there.
        while len(times) < count:
            query = {"watch": "1", "resourceVersion": version}
            async with self._http.stream("GET", path, params=query) as answer:
                async for line in answer.aiter_lines():
                    event = json.loads(line)
                    body = event["object"]
                    if event["type"] == "ERROR":
                        raise SystemExit(f"{path}: {body['message']}")
                    name, version = body["metadata"]["name"], body["metadata"]["resourceVersion"]
                    if name.startswith(prefix) and name not in times and is_complete(body):
                        times[name] = time.perf_counter()
                    if len(times) == count:
                        break
        return times


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def _instance(name: str) -> Mapping[str, object]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"blueprintRef": {"name": "pair"}, "parameters": {"topic": name}},
    }


def _is_applied(body: dict[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions", [])
    return any(c["type"] == "Applied" and c["status"] == "True" for c in conditions)


def _is_there(_: dict[str, Any]) -> bool:
    return True


BLUEPRINT_INSTANCES = Uses(INSTANCES, _instance, _is_applied)
