"""Decide what a cell with a mind needs: why it cannot run, its environment and its volumes.

The operator may not read Secrets. The Secret with the key is mounted as an optional volume, so a
pod without it starts, and the agent runtime reports the missing key as its failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kais import agent_tools, labels, mcp_servers
from kais.reasons import Reason
from kais.resources.cell_template import (
    CellTemplateSpec,
    CredentialsSelector,
    Mind,
    Provider,
    Tool,
)
from kais_operator.controllers.cell.decide.volumes import Volume, volume
from kais_operator.planning.agent_settings import AgentSettings
from kais_operator.planning.plan import Body

CREDENTIALS_FOLDER = "/etc/kais/credentials"
INSTRUCTIONS_FOLDER = "/etc/kais/instructions"
HEADERS_FOLDER = "/etc/kais/mcp-headers"
STATE_FOLDER = "/var/lib/kais-agent"
PROGRAM = "kais-agent"
_STATE_LIMIT = "1Gi"
_READABLE_BY_GROUP = 0o440
_IGNORED = {
    "local_brain": "localBrain",
    "self_model": "selfModel",
    "cognitive_modulation": "cognitiveModulation",
}


@dataclass(frozen=True)
class Obstacle:
    """Why a cell with a mind cannot run."""

    reason: Reason
    message: str


def obstacle(spec: CellTemplateSpec, agents: AgentSettings) -> Obstacle | None:
    """Return why the agent runtime cannot run a cell; None if it can, or there is no mind."""
    mind = spec.mind
    if mind is None:
        return None
    tools = [tool.name for tool in spec.tools]
    problem = agent_tools.problem(tools)
    if problem is not None:
        are_names_known = all(agent_tools.is_tool_name(name) for name in tools)
        return Obstacle(
            Reason.NOT_YET_SUPPORTED if are_names_known else Reason.UNKNOWN_TOOL, problem
        )
    problem = agent_tools.server_problem(spec.tools)
    if problem is not None:
        return Obstacle(Reason.INVALID, problem)
    if mind.provider is Provider.OLLAMA and _url(mind, agents) is None:
        message = (
            "spec.mind.provider ollama has no public endpoint: set spec.mind.baseUrl, or "
            "agents.endpoints.ollama of the chart"
        )
        return Obstacle(Reason.NO_MODEL_ENDPOINT, message)
    return None


def remarks(mind: Mind) -> list[str]:
    """Return the fields of a mind that have no effect."""
    return [name for field, name in _IGNORED.items() if getattr(mind, field) is not None]


def variables(mind: Mind, agents: AgentSettings, tools: Sequence[Tool]) -> dict[str, str]:
    """Return the variables of the agent runtime, besides those of every cell."""
    secret = _credentials(mind)
    optional_variables = {
        labels.ENV_MODEL_KEY_FILE: f"{CREDENTIALS_FOLDER}/{secret.key}",
        labels.ENV_MODEL_SECRET: f"{secret.name}/{secret.key}",
        labels.ENV_AGENT_STATE: STATE_FOLDER,
        **agents.telemetry,
    }
    if mind.provider in agents.model_urls:
        optional_variables[labels.ENV_MODEL_URL] = agents.model_urls[mind.provider]
    if agents.prices:
        optional_variables[labels.ENV_PRICES] = agents.prices
    if mind.instructions_from is not None:
        file = f"{INSTRUCTIONS_FOLDER}/{mind.instructions_from.key}"
        optional_variables[labels.ENV_INSTRUCTIONS_FILE] = file
    if _header_sources(tools):
        optional_variables[labels.ENV_MCP_HEADERS] = HEADERS_FOLDER
    return optional_variables


def volumes(mind: Mind, tools: Sequence[Tool]) -> list[Volume]:
    """Return the volumes that only the container of the agent runtime mounts."""
    secret = _credentials(mind)
    keys: Body = {"secretName": secret.name, "optional": True, "defaultMode": _READABLE_BY_GROUP}
    mounted = [
        volume("kais-credentials", CREDENTIALS_FOLDER, {"secret": keys}, is_read_only=True),
        volume("kais-agent-state", STATE_FOLDER, {"emptyDir": {"sizeLimit": _STATE_LIMIT}}),
    ]
    if mind.instructions_from is not None:
        source: Body = {"configMap": {"name": mind.instructions_from.config_map, "optional": True}}
        mounted.append(volume("kais-instructions", INSTRUCTIONS_FOLDER, source, is_read_only=True))
    headers = _header_sources(tools)
    if headers:
        projected: Body = {"sources": headers, "defaultMode": _READABLE_BY_GROUP}
        source = {"projected": projected}
        mounted.append(volume("kais-mcp-headers", HEADERS_FOLDER, source, is_read_only=True))
    return mounted


def _header_sources(tools: Sequence[Tool]) -> list[Body]:
    """Return the keys of Secrets that become files, each named by its server and header."""
    return [
        {
            "secret": {
                "name": header.secret,
                "items": [{"key": header.key, "path": f"{server.name}/{header.name.lower()}"}],
                "optional": True,
            }
        }
        for server in mcp_servers.parse(tools)
        for header in server.headers_from
    ]


def _url(mind: Mind, agents: AgentSettings) -> str | None:
    return mind.base_url or agents.model_urls.get(mind.provider)


def _credentials(mind: Mind) -> CredentialsSelector:
    """Return the Secret of a mind, with its default name."""
    selected = mind.credentials_ref or CredentialsSelector()
    name = selected.name or f"kais-{mind.provider.value}"
    return selected.model_copy(update={"name": name})
