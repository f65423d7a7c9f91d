"""An operator outside the cluster learns from the API server that a message reached no pod."""

from __future__ import annotations

import json
import socket
import uuid
from typing import Any

import httpx
import pytest

from kais_operator.agents.transport import ProxiedTransport
from kais_operator.kubernetes import api_client
from kais_operator.planning.plan import Body

pytestmark = pytest.mark.cluster


def own_address() -> str:
    """Return an address of this machine that is not loopback, which no endpoint may have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def thing(kind: str, **fields: Any) -> Body:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "lead"}, **fields}


def endpoints(namespace: str, *, has_pod: bool) -> Body:
    target = {"kind": "Pod", "namespace": namespace, "name": "lead"}
    address = {"ip": own_address(), "targetRef": target}
    subset = {"addresses": [address], "ports": [{"name": "a2a", "port": closed_port()}]}
    return thing("Endpoints", subsets=[subset] if has_pod else [])


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("no endpoints", 'services \\"lead\\" not found'),
        ("empty", "no endpoints available for service"),
        ("a pod that refuses", "connect: connection refused"),
    ],
)
async def test_message_that_reaches_no_pod_has_no_connection(
    control_plane: Any, state: str, reason: str
) -> None:
    namespace = f"proxy-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", namespace)
    pod = {"containers": [{"name": "agent", "image": "agent"}], "serviceAccountName": "default"}
    has_pod = state == "a pod that refuses"
    bodies = [
        thing("ServiceAccount") | {"metadata": {"name": "default"}},
        thing("Service", spec={"ports": [{"name": "a2a", "port": 8080}]}),
        thing("Pod", spec=pod),
        *([endpoints(namespace, has_pod=has_pod)] if state != "no endpoints" else []),
    ]
    for body in bodies:
        control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    status = {"status": {"phase": "Running", "podIPs": [{"ip": own_address()}]}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    control_plane.kubectl("patch", "pod", "lead", "-n", namespace, *patch)
    link = await api_client.connect(str(control_plane.kubeconfig))
    try:
        async with httpx.AsyncClient(transport=ProxiedTransport(link)) as client:
            with pytest.raises(httpx.ConnectError) as raised:
                await client.post(f"http://lead.{namespace}.svc:8080/rpc", content=b"{}")
    finally:
        await link.close()
    assert reason in str(raised.value)
