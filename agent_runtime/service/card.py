"""The agent card: public inside the cluster, so it names no secrets, prompts or models."""

from __future__ import annotations

from typing import Final

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from kais import a2a

_TEXT: Final = "text/plain"
_SCHEME: Final = "ticket"
_IDEMPOTENCY: Final = AgentExtension(
    uri=a2a.IDEMPOTENCY_EXTENSION,
    description="A repeated message is answered with the task of the first one.",
)
_HEARTBEAT: Final = AgentExtension(
    uri=a2a.HEARTBEAT_EXTENSION,
    description=f"A working task renews a time in its metadata every {a2a.HEARTBEAT_S} s.",
)


def create_card(cell: str, *, port: int, is_idempotent: bool) -> AgentCard:
    """Return the card of a cell; after a loss of its state it promises no idempotency."""
    host = f"http://{cell}:{port}"
    extensions = [_IDEMPOTENCY, _HEARTBEAT] if is_idempotent else [_HEARTBEAT]
    scheme = APIKeySecurityScheme(
        location="header",
        name=a2a.TICKET_HEADER,
        description="A ticket of the knowledge service for a call to this cell.",
    )
    return AgentCard(
        name=cell,
        description=f"The cell {cell} of a kais team.",
        version="1",
        supported_interfaces=[
            AgentInterface(
                url=f"{host}{a2a.RPC_PATH}", protocol_binding="JSONRPC", protocol_version="1.0"
            ),
            AgentInterface(
                url=f"{host}{a2a.REST_PATH}", protocol_binding="HTTP+JSON", protocol_version="1.0"
            ),
        ],
        capabilities=AgentCapabilities(streaming=True, extensions=extensions),
        default_input_modes=[_TEXT],
        default_output_modes=[_TEXT],
        skills=[
            AgentSkill(
                id="work",
                name="Work",
                description="Works on one message, and answers with a text.",
                tags=["work"],
            )
        ],
        security_schemes={_SCHEME: SecurityScheme(api_key_security_scheme=scheme)},
        security_requirements=[SecurityRequirement(schemes={_SCHEME: StringList()})],
    )
