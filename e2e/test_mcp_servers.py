"""A mind that calls an MCP server in another pod, and says on its Cell how the server is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from e2e.support.installed import Body, Installed, conditions
from e2e.support.waiting import wait_until
from e2e.test_minds import journal_of, script_server

pytestmark = pytest.mark.e2e
AGENT_IMAGE = f"localhost/kais/agent:{version('kais')}"
SERVER = '''
import os
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

server = MCPServer("cluster")

@server.tool()
async def list_pods(namespace: str) -> str:
    """List the pods of a namespace."""
    return f"web-0 in {namespace} is OOMKilled"

inner = server.streamable_http_app(
    stateless_http=True,
    json_response=True,
    transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
)

async def app(scope, receive, send):
    headers = dict(scope.get("headers") or ())
    if scope["type"] == "http" and headers.get(b"x-api-key") != b"reader-key":
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await inner(scope, receive, send)

uvicorn.run(app, host="0.0.0.0", port=8000)
'''
POD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-reader}
data:
  server.py: |
SOURCE
---
apiVersion: v1
kind: Pod
metadata: {name: cluster-reader, labels: {app: cluster-reader}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: server
      image: AGENT
      command: [python, /srv/server.py]
      readinessProbe: {tcpSocket: {port: 8000}, periodSeconds: 1}
      resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts: [{name: source, mountPath: /srv, readOnly: true}]
  volumes: [{name: source, configMap: {name: cluster-reader}}]
---
apiVersion: v1
kind: Service
metadata: {name: cluster-reader}
spec:
  selector: {app: cluster-reader}
  ports: [{port: 8000}]
"""
CELL = """
apiVersion: kais.io/v1
kind: Cell
metadata: {name: investigator}
spec:
  mind:
    provider: openai
    model: scripted-1
    baseUrl: http://scripted:8080/v1
    credentialsRef: {name: scripted, key: apiKey}
    systemPrompt: You find out why pods do not start.
  tools:
    - name: mcp
      config:
        name: cluster
        url: http://cluster-reader:8000/mcp
        headersFrom: [{name: X-Api-Key, secret: cluster-reader, key: token}]
        timeout: 10s
"""
MISSION = """
apiVersion: kais.io/v1
kind: Mission
metadata: {name: NAME}
spec:
  cellRef: investigator
  objective: Why is web-0 down?
  completion: {timeout: 5m}
"""
RULES = """
    rules:
      - name: has no server
        when: {contains: ["server-unavailable"]}
        reply: {text: The cluster cannot be read.}
      - name: reads the pods
        when: {turn: 1, tool: cluster__list_pods}
        reply: {tool_calls: [{name: cluster__list_pods, arguments: {namespace: shop}}]}
      - name: connects again
        when: {turn: 1}
        reply: {tool_calls: [{name: reconnect_cluster, arguments: {}}]}
      - name: answers
        reply: {text: web-0 was killed for its memory.}
"""


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("mcp-servers")


def run(cluster: Installed, namespace: str, name: str) -> str:
    """Run a mission of the cell, and return its answer."""
    manifest = MISSION.replace("NAME", name)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    status = cluster.finished_mission(name, namespace, timeout_s=300)["status"]
    assert status["outcome"] == "Succeeded", status
    return str(status["result"])


def server_condition(cluster: Installed, namespace: str, reason: str) -> str:
    """Wait until the condition of the server has a reason and the cell is ready.

    Returns the message of the condition.
    """

    def holds(every: dict[str, Body]) -> bool:
        is_ready = every.get("Ready", {}).get("status") == "True"
        return is_ready and every.get("mcp.kais.io/cluster", {}).get("reason") == reason

    reported = wait_until(
        lambda: conditions(cluster.get("cell", "investigator", namespace)),
        holds,
        description=f"the condition of the server with the reason {reason}",
    )
    return str(reported["mcp.kais.io/cluster"]["message"])


def test_a_mind_reads_from_a_server_when_its_key_is_there(
    cluster: Installed, namespace: str
) -> None:
    script_server(cluster, namespace, "scripted", RULES)
    source = textwrap.indent(SERVER.strip(), "    ")
    pod = POD.replace("SOURCE", source).replace("AGENT", AGENT_IMAGE)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod)
    key = "--from-literal=apiKey=scripted-key"
    cluster.kubectl("create", "secret", "generic", "scripted", key, "-n", namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "--timeout=170s",
                    "pod/cluster-reader")  # fmt: skip
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=CELL)
    server_condition(cluster, namespace, "NotConnected")

    assert run(cluster, namespace, "without-key") == "The cluster cannot be read."
    message = server_condition(cluster, namespace, "ServerRefused")
    assert "the key token of the Secret cluster-reader" in message

    literal = "--from-literal=token=reader-key"
    cluster.kubectl("create", "secret", "generic", "cluster-reader", literal, "-n", namespace)
    cluster.kubectl("delete", "pod", "-n", namespace, "-l", "kais.io/cell=investigator")
    assert run(cluster, namespace, "with-key") == "web-0 was killed for its memory."
    message = server_condition(cluster, namespace, "Connected")
    assert message == "http://cluster-reader:8000/mcp offers 1 of its 1 tools to the mind"
    last = journal_of(cluster, namespace, "scripted")[-1]
    assert "web-0 in shop is OOMKilled" in str(last["request"]["messages"])
