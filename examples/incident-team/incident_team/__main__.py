"""`python -m incident_team reader` or `fixer`: serve the tools of one server."""

from __future__ import annotations

import os
import sys

import uvicorn
from starlette.types import ASGIApp

from incident_team import mcp_app, settings
from incident_team.deployments import DeploymentApi
from incident_team.fixer_tools import FixerTools
from incident_team.reader_tools import ReaderTools
from namespace_doctor import kubernetes_api
from namespace_doctor.kubernetes_api import NamespaceReader


def main() -> int:
    """Serve until a signal; return 1 if the ServiceAccount is missing."""
    read = settings.read(os.environ, sys.argv[1:])
    try:
        http = kubernetes_api.connect(read.api_url, account=read.account)
    except kubernetes_api.ClusterError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    token_file = read.account / "token"
    api = DeploymentApi(http, namespace=read.namespace, token_file=token_file)
    pods = NamespaceReader(http, namespace=read.namespace, token_file=token_file)
    uvicorn.run(app_of(read, pods, api), host="0.0.0.0", port=read.port)  # noqa: S104 - a pod
    return 0


def app_of(read: settings.Settings, pods: NamespaceReader, api: DeploymentApi) -> ASGIApp:
    """Return the app of the server that the settings name."""
    tools: list[mcp_app.Tool]
    if read.server == "reader":
        reader = ReaderTools(pods, api)
        tools = [reader.explain_failing_pods, reader.list_deployments, reader.rollout_history]
    else:
        tools = [FixerTools(api, read.max_memory_mi).set_memory_limit]
    return mcp_app.create_app(
        read.server, tools, is_read_only=read.server == "reader", key_file=read.key_file
    )


if __name__ == "__main__":
    sys.exit(main())
