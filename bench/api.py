"""The API server as the benches use it: creates, and watches that note when things are there.

The client runs on the cores that are measured. So of a watch event it decodes what it needs, and
only some creates are open at a time: httpx walks through all that wait whenever one ends.
"""

import asyncio
import base64
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import msgspec
import yaml

NAMESPACE = "bench"
DEPLOYMENTS, SERVICES = "/apis/apps/v1/deployments", "/api/v1/services"
_LONGEST_S = 600
_OPEN_CREATES = 50
"""Creates that wait for their response at a time; three times the workers of an operator."""


class _Metadata(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - the field's name in the API


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: msgspec.Raw = msgspec.Raw(b"{}")
    message: str = ""


class _Event(msgspec.Struct):
    type: str
    object: _Object


_DECODER = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class Uses:
    """The objects of one kind that a burst creates.

    Attributes:
        group: the path of their API group and version.
        plural: of their kind.
        body: gives the object of a name and a namespace.
        is_complete: whether its status says that all that it stands for was applied.
    """

    group: str
    plural: str
    body: Callable[[str, str], Mapping[str, object]]
    is_complete: Callable[[Mapping[str, Any]], bool]

    @property
    def path(self) -> str:
        """Of the objects in all namespaces."""
        return f"{self.group}/{self.plural}"

    def path_in(self, namespace: str) -> str:
        """Of the objects in one namespace."""
        return f"{self.group}/namespaces/{namespace}/{self.plural}"


@dataclass(frozen=True)
class Burst:
    """What became of a burst: seconds from create to Applied of each, and until all was there."""

    samples: list[float]
    seconds_to_applied: float
    seconds_to_workloads: float


def namespaces(count: int) -> tuple[str, ...]:
    """The namespaces over which a bench spreads its objects."""
    return (NAMESPACE, *(f"{NAMESPACE}-{number}" for number in range(1, count)))


class Api:
    """One client, which creates in its namespaces in turn; `close` it."""

    def __init__(self, kubeconfig: Path, *, realms: int = 1) -> None:
        self.namespaces = namespaces(realms)
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

        open_creates = asyncio.Semaphore(_OPEN_CREATES)

        async def create_instance(number: int) -> None:
            name = f"{prefix}-{number}"
            created[name] = time.perf_counter()
            async with open_creates:
                namespace = self.namespaces[number % len(self.namespaces)]
                await self.create(made.path_in(namespace), made.body(name, namespace))

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
        self, path: str, prefix: str, count: int, is_complete: Callable[[Mapping[str, Any]], bool]
    ) -> dict[str, float]:
        """When each of so many objects was first seen done, by name."""
        times: dict[str, float] = {}
        version = await self._list_version(path)
        # The API server ends the watch of a client that reads slowly; the next one goes on there.
        while len(times) < count:
            query = {"watch": "1", "resourceVersion": version}
            async with self._http.stream("GET", path, params=query) as answer:
                async for line in lines(answer):
                    event = _DECODER.decode(line)
                    if event.type == "ERROR":
                        raise SystemExit(f"{path}: {event.object.message}")
                    name, version = (
                        event.object.metadata.name,
                        event.object.metadata.resourceVersion,
                    )
                    if name in times or not name.startswith(prefix):
                        continue
                    if is_complete(msgspec.json.decode(event.object.status)):
                        times[name] = time.perf_counter()
                    if len(times) == count:
                        break
        return times


async def lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the complete lines of a response while it arrives."""
    rest = b""
    async for chunk in answer.aiter_bytes():
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield line


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def _instance(name: str, namespace: str) -> Mapping[str, object]:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "BlueprintInstance",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"blueprintRef": {"name": "pair"}, "parameters": {"topic": name}},
    }


def _is_applied(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions", [])
    return any(c["type"] == "Applied" and c["status"] == "True" for c in conditions)


def _is_there(_: Mapping[str, Any]) -> bool:
    return True


BLUEPRINT_INSTANCES = Uses("/apis/kais.io/v1", "blueprintinstances", _instance, _is_applied)
