"""The common part of a Cell and a cell template of a Formation: the workload and its limits."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from kais.resources.base import Model, Rule
from kais.resources.field_types import (
    Bool,
    Cost,
    Duration,
    Int,
    Name,
    Number,
    Quantity,
    Reference,
    Text,
    Tree,
)
from kais.resources.pod_template import ContainerFields, PodTemplate, RuntimeFields

SelectedKey = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]*[-_a-zA-Z0-9][-._a-zA-Z0-9]*$"),
]
"""A key of a Secret or ConfigMap, which becomes the name of a file: never `.` or `..`."""


class Provider(StrEnum):
    """The provider of a mind's model."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OLLAMA = "ollama"


class CellMode(StrEnum):
    """How a cell receives work."""

    SERVICE = "Service"
    TASK = "Task"


class SpawnPolicy(StrEnum):
    """Whether a cell may create further cells."""

    OPEN = "open"
    APPROVAL_REQUIRED = "approval_required"
    BLUEPRINT_ONLY = "blueprint_only"
    DISABLED = "disabled"


class WorkingMemory(Model):
    """How much of its conversation a mind keeps verbatim."""

    max_messages: Int = Field(
        default=50,
        ge=1,
        le=100000,
        description="Number of messages to keep. Older messages are omitted.",
    )
    summarize_after: Int = Field(
        default=40,
        ge=1,
        le=100000,
        description="Number of messages above which older ones are summarised.",
    )


class CredentialsSelector(Model):
    """The Secret with the key of a model's provider, in the same namespace."""

    name: Reference | None = Field(
        default=None, description="Name of the Secret. Default: kais- and the provider."
    )
    key: SelectedKey = Field(default="apiKey", description="Key of the Secret.")


class InstructionsSelector(Model):
    """The ConfigMap with a system prompt, in the same namespace."""

    config_map: Reference = Field(description="Name of the ConfigMap.")
    key: SelectedKey = Field(description="Key of the ConfigMap.")


class Mind(RuntimeFields):
    """An agent that the agent runtime runs with a model; unknown keys are kept."""

    model_config = ConfigDict(extra="allow")
    RULES = (
        Rule(
            "has(self.systemPrompt) != has(self.instructionsFrom)",
            "exactly one of systemPrompt and instructionsFrom is needed",
            lambda m: (m.system_prompt is None) != (m.instructions_from is None),
        ),
    )

    provider: Provider = Field(description="Provider of the model; determines the protocol.")
    model: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="Name of the model at its provider."
    )
    base_url: (
        Annotated[str, Field(max_length=2048, pattern=r"^https?://[^\s/]+(/\S*)?$")] | None
    ) = Field(
        default=None,
        description=(
            "Base URL of the model's endpoint. Default: the installation's endpoint for the "
            "provider, else the public endpoint of anthropic and openai."
        ),
    )
    credentials_ref: CredentialsSelector | None = Field(
        default=None,
        description=(
            "Secret with the provider's key, which must be in the same namespace. Default: key "
            "apiKey of the Secret kais-anthropic, kais-openai or kais-ollama."
        ),
    )
    system_prompt: Text | None = Field(
        default=None,
        description="System prompt of every conversation. Excludes instructionsFrom.",
    )
    instructions_from: InstructionsSelector | None = Field(
        default=None,
        description="ConfigMap with the system prompt. Excludes systemPrompt.",
    )
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = Field(
        default=None, description="Sampling temperature. Default: that of the provider."
    )
    max_tokens: Annotated[Int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="Maximum length of an answer in tokens. Default: that of the provider.",
    )
    working_memory: WorkingMemory | None = Field(
        default=None, description="How much of the conversation is kept verbatim."
    )
    local_brain: Tree | None = Field(
        default=None, description="Accepted for compatibility; has no effect."
    )
    self_model: Tree | None = Field(
        default=None, description="Accepted for compatibility; has no effect."
    )
    cognitive_modulation: Tree | None = Field(
        default=None, description="Accepted for compatibility; has no effect."
    )


class KeySelector(Model):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: Name = Field(description="Name of the Secret or ConfigMap, in the same namespace.")
    key: Name = Field(description="Key of the value in the Secret or ConfigMap.")
    optional: Bool | None = Field(
        default=None,
        description=(
            "If true, the container starts without the variable when the key does not exist."
        ),
    )


class ValueSource(Model):
    """The source of a variable's value, so that no spec contains the value."""

    RULES = (
        Rule(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            "exactly one of secretKeyRef and configMapKeyRef is needed",
            lambda s: (s.secret_key_ref is None) != (s.config_map_key_ref is None),
        ),
    )

    secret_key_ref: KeySelector | None = Field(
        default=None, description="Key of a Secret. Only the kubelet reads the value."
    )
    config_map_key_ref: KeySelector | None = Field(default=None, description="Key of a ConfigMap.")


class EnvVar(Model):
    """One environment variable; text reaches the container letter for letter."""

    RULES = (
        Rule(
            "!(has(self.value) && has(self.valueFrom))",
            "value and valueFrom are mutually exclusive",
            lambda e: e.value is None or e.value_from is None,
        ),
    )

    name: Annotated[
        str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    ] = Field(
        description=(
            "Name of the variable. Names that start with KAIS_ or KNOWLEDGE_ are reserved."
        )
    )
    value: Text | None = Field(
        default=None, description="Value of the variable, without expansion of $(NAME)."
    )
    value_from: ValueSource | None = Field(
        default=None, description="Source of the value. Excludes value."
    )


class Port(Model):
    """One port that the container listens on."""

    container_port: Int = Field(
        ge=1, le=65535, description="Port number that the process listens on."
    )
    name: Annotated[
        str, Field(min_length=1, max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = Field(default="http", description="Name of the port for Services and probes.")


class A2aServer(Model):
    """The A2A server in a container of your own image."""

    port: Int = Field(ge=1, le=65535, description="Port on which the server listens.")
    path: Annotated[str, Field(max_length=256, pattern=r"^/([A-Za-z0-9._~-]+/?)*$")] = Field(
        default="/",
        description="Path of the server; its agent card is .well-known/agent-card.json below it.",
    )


class Container(ContainerFields):
    """Any image that does the work; it does not need to know kais."""

    image: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="Image with a tag, or with a digest for reproducible runs."
    )
    command: Annotated[list[Text], Field(max_length=64)] | None = Field(
        default=None, description="Replaces the entrypoint of the image. It is not run in a shell."
    )
    args: Annotated[list[Text], Field(max_length=256)] | None = Field(
        default=None, description="Replaces the arguments of the image."
    )
    env: Annotated[
        list[EnvVar],
        Field(
            max_length=128,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = Field(
        default_factory=list,
        description="Environment variables in addition to those that kais sets.",
    )
    ports: Annotated[
        list[Port],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort"],
            },
        ),
    ] = Field(default_factory=list, description="Ports that the process listens on.")
    a2a: A2aServer | None = Field(
        default=None,
        alias="a2a",  # the rule for names would make it a2A
        description=(
            "The A2A 1.0 server of the image, in mode Service: missions send it their objective. "
            "It checks no tickets, so the topology holds for its callers only."
        ),
    )
    run_as_user: Annotated[Int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="User ID of the process, never root. Default: 65532."
    )


class ApprovalTimeout(StrEnum):
    """The outcome of a tool call that is not approved in time."""

    DENY = "deny"
    FAIL = "fail"


class ToolApproval(Model):
    """Whether a person must approve each call of a tool."""

    required: Bool = Field(
        default=False, description="If true, each call waits for the approval of a person."
    )
    timeout: Duration = Field(default="1h", description="How long a call waits for its approval.")
    on_timeout: ApprovalTimeout = Field(
        default=ApprovalTimeout.DENY,
        description=(
            "What happens after the timeout: deny, the agent is told that the call was denied; "
            "fail, the attempt fails."
        ),
    )


class Tool(Model):
    """One tool that a mind may call. Without tools a mind can call nothing, not even a shell."""

    name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description=(
            "Name of the tool: recall, remember, correct, read_file, write_file, list_files, "
            "ask_peer, blackboard, or mcp for the tools of an MCP server. The name of one tool of "
            "a server, such as cluster__restart, gives that tool an approval of its own. A cell "
            "with an unknown tool does not start."
        )
    )
    config: Tree | None = Field(
        default=None,
        description=(
            "Settings of the tool. For mcp: url, name, headersFrom[]{name, secret, key}, allow[] "
            "and timeout."
        ),
    )
    approval: ToolApproval | None = Field(
        default=None, description="Approval of the calls by a person. Default: none is needed."
    )


class CellResources(Model):
    """The resource limits of a cell."""

    max_tokens_per_turn: Annotated[Int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="Maximum number of tokens per turn. A turn that needs more is stopped.",
    )
    max_cost_per_hour: Cost | None = Field(
        default=None, description="Maximum cost per hour in US dollars. 0 allows no paid calls."
    )
    max_total_cost: Cost | None = Field(
        default=None, description="Maximum total cost in US dollars. 0 allows no paid calls."
    )
    cpu_limit: Quantity | None = Field(
        default=None, description="CPU limit of the pod, such as 500m or 2. Default: 500m."
    )
    memory_limit: Quantity | None = Field(
        default=None, description="Memory limit of the pod, such as 256Mi. Default: 256Mi."
    )


class Recursion(Model):
    """The limits on the cells that a cell may create."""

    max_depth: Int = Field(
        default=5, ge=0, le=1000, description="Maximum depth of cells below this one."
    )
    max_descendants: Int = Field(
        default=50,
        ge=0,
        le=100000,
        description="Maximum number of cells below this one, at any depth.",
    )
    spawn_policy: SpawnPolicy = Field(
        default=SpawnPolicy.OPEN,
        description=(
            "Which cells this cell may create: open, any; approval_required, those that are "
            "approved; blueprint_only, those of Blueprints; disabled, none."
        ),
    )


class CellKnowledge(Model):
    """The knowledge that a cell gets, and the location of its scope."""

    inject: Bool | None = Field(
        default=None,
        description="If false, the cell gets no recalled facts. Default: as in its scope.",
    )
    scope_ref: Reference | None = Field(
        default=None, description="Name of the KnowledgeScope whose settings apply to this cell."
    )


class CellTemplateSpec(Model):
    """A cell as a Formation describes it: without references to others."""

    RULES = (
        Rule(
            "has(self.mind) != has(self.container)",
            "exactly one of mind and container is needed",
            lambda s: (s.mind is None) != (s.container is None),
        ),
    )

    mind: Mind | None = Field(
        default=None, description="An agent of the agent runtime. Excludes container."
    )
    container: Container | None = Field(
        default=None, description="A container with your own image. Excludes mind."
    )
    mode: CellMode | None = Field(
        default=None,
        description=(
            "Service keeps the cell running; Task runs it once per attempt of a mission. "
            "Default: Service for a mind, Task for a container."
        ),
    )
    tools: Annotated[list[Tool], Field(max_length=128)] = Field(
        default_factory=list, description="Tools that a mind may call. Default: none."
    )
    resources: CellResources | None = Field(
        default=None, description="Limits on tokens, cost, CPU and memory."
    )
    recursion: Recursion | None = Field(
        default=None, description="Limits on cells that this cell creates."
    )
    knowledge: CellKnowledge | None = Field(
        default=None, description="Which knowledge the cell gets."
    )
    pod_template: PodTemplate | None = Field(
        default=None,
        description=(
            "Fields of the cell's pods in addition to those that kais sets, as in the template of "
            "a Deployment."
        ),
    )
    service_account_name: Reference | None = Field(
        default=None,
        description=(
            "ServiceAccount to use instead of the cell's own. It must have the annotation "
            'kais.io/allow-cells: "true".'
        ),
    )
    api_access: Bool = Field(
        default=False,
        description=(
            "If true, the token of the ServiceAccount is mounted for calls to the Kubernetes API."
        ),
    )

    @property
    def effective_mode(self) -> CellMode:
        """The mode of the cell, or its default if unset."""
        if self.mode is not None:
            return self.mode
        return CellMode.SERVICE if self.mind is not None else CellMode.TASK

    @property
    def serves_a2a(self) -> bool:
        """Whether missions and peers send the running cell messages by A2A."""
        has_server = self.mind is not None or (
            self.container is not None and self.container.a2a is not None
        )
        return self.effective_mode is CellMode.SERVICE and has_server
