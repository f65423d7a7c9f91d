"""What a Cell and a cell template of a Formation share: who does the work, with what limits."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from kais.resources.base import Model, Rule
from kais.resources.field_types import (
    Bool,
    Cost,
    Int,
    Name,
    Number,
    Quantity,
    Reference,
    Text,
    Tree,
)


class Provider(StrEnum):
    """Who serves the model of a mind."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OLLAMA = "ollama"


class CellMode(StrEnum):
    """How work reaches a cell."""

    SERVICE = "Service"
    TASK = "Task"


class SpawnPolicy(StrEnum):
    """Whether a cell may make further cells."""

    OPEN = "open"
    APPROVAL_REQUIRED = "approval_required"
    BLUEPRINT_ONLY = "blueprint_only"
    DISABLED = "disabled"


class WorkingMemory(Model):
    """How much of its conversation a mind keeps word for word."""

    max_messages: Int = Field(
        default=50, ge=1, le=100000, description="messages kept before older ones are left out"
    )
    summarize_after: Int = Field(
        default=40, ge=1, le=100000, description="messages after which older ones are summarised"
    )


class Mind(Model):
    """A model-driven agent run by the reference runtime; keys that kais does not know are kept."""

    model_config = ConfigDict(extra="allow")

    provider: Provider = Field(description="who serves the model; decides the protocol spoken")
    model: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="the model's name as its provider spells it"
    )
    system_prompt: Text = Field(description="the instruction that stands before every conversation")
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = Field(
        default=None, description="randomness of answers; unset leaves it to the provider"
    )
    max_tokens: Annotated[Int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, description="longest answer in tokens; unset leaves it to the provider"
    )
    working_memory: WorkingMemory | None = Field(
        default=None, description="how much of the conversation is kept word for word"
    )
    local_brain: Tree | None = Field(
        default=None, description="accepted for old manifests, without effect"
    )
    self_model: Tree | None = Field(
        default=None, description="accepted for old manifests, without effect"
    )
    cognitive_modulation: Tree | None = Field(
        default=None, description="accepted for old manifests, without effect"
    )


class KeySelector(Model):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: Name = Field(description="name of the Secret or ConfigMap in this namespace")
    key: Name = Field(description="which of its keys holds the value")
    optional: Bool | None = Field(
        default=None,
        description="true starts the container without the variable when it is missing",
    )


class ValueSource(Model):
    """Where the value of a variable stands, so that the value itself stands in no spec."""

    RULES = (
        Rule(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            "exactly one of secretKeyRef and configMapKeyRef is needed",
            lambda s: (s.secret_key_ref is None) != (s.config_map_key_ref is None),
        ),
    )

    secret_key_ref: KeySelector | None = Field(
        default=None, description="take the value from a Secret; only the kubelet reads it"
    )
    config_map_key_ref: KeySelector | None = Field(
        default=None, description="take the value from a ConfigMap"
    )


class EnvVar(Model):
    """One environment variable; text reaches the container letter for letter."""

    RULES = (
        Rule(
            "!(has(self.value) && has(self.valueFrom))",
            "value and valueFrom exclude each other",
            lambda e: e.value is None or e.value_from is None,
        ),
    )

    name: Annotated[
        str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    ] = Field(description="the variable's name; KAIS_* and KNOWLEDGE_* names belong to kais")
    value: Text | None = Field(default=None, description="the text, not expanded by anybody")
    value_from: ValueSource | None = Field(
        default=None, description="where the value stands instead of here"
    )


class Port(Model):
    """One port that the container listens on."""

    container_port: Int = Field(ge=1, le=65535, description="number the process listens on")
    name: Annotated[
        str, Field(min_length=1, max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = Field(default="http", description="what services and probes call the port")


class Container(Model):
    """Any image that does the work; nothing in it needs to know kais."""

    image: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="image with tag or, to be reproducible, digest"
    )
    command: Annotated[list[Text], Field(max_length=64)] | None = Field(
        default=None, description="replaces the image's entrypoint; no shell is put around it"
    )
    args: Annotated[list[Text], Field(max_length=256)] | None = Field(
        default=None, description="replaces the image's arguments"
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
    ] = Field(default_factory=list, description="variables besides those that kais sets")
    ports: Annotated[
        list[Port],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort"],
            },
        ),
    ] = Field(default_factory=list, description="ports that the process listens on")
    run_as_user: Annotated[Int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="user id in the container; unset is 65532, and never root"
    )


class Tool(Model):
    """One tool that a mind may call; a mind without tools has none, no shell either."""

    name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="the tool's name; one that the runtime does not know is reported"
    )
    config: Tree | None = Field(default=None, description="settings that the tool itself reads")


class CellResources(Model):
    """What a cell may use up."""

    max_tokens_per_turn: Annotated[Int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, description="most tokens of one turn; a turn that would use more is stopped"
    )
    max_cost_per_hour: Cost | None = Field(
        default=None, description="most paid per hour in US dollars; 0 allows no paid call"
    )
    max_total_cost: Cost | None = Field(
        default=None, description="most paid in all in US dollars; 0 allows no paid call"
    )
    cpu_limit: Quantity | None = Field(
        default=None, description="CPU limit of the pod such as 500m or 2; unset is 500m"
    )
    memory_limit: Quantity | None = Field(
        default=None, description="memory limit of the pod such as 256Mi; unset is 256Mi"
    )


class Recursion(Model):
    """How far a cell may go in making further cells."""

    max_depth: Int = Field(
        default=5, ge=0, le=1000, description="generations of cells below this one"
    )
    max_descendants: Int = Field(
        default=50, ge=0, le=100000, description="cells below this one in all generations"
    )
    spawn_policy: SpawnPolicy = Field(
        default=SpawnPolicy.OPEN, description="whether making cells is free, asked for or refused"
    )


class CellKnowledge(Model):
    """What a cell is given of what is known, and where its own scope lies."""

    inject: Bool | None = Field(
        default=None,
        description="false puts no recalled facts before this cell; unset follows the scope",
    )
    scope_ref: Reference | None = Field(
        default=None, description="KnowledgeScope whose settings this cell follows, by name"
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
        default=None, description="an agent of the reference runtime; excludes container"
    )
    container: Container | None = Field(
        default=None, description="an image of your own that does the work; excludes mind"
    )
    mode: CellMode | None = Field(
        default=None,
        description=(
            "Service keeps the cell running and talks to it; Task runs it once for each attempt "
            "of a mission. Unset is Service with mind and Task with container"
        ),
    )
    tools: Annotated[list[Tool], Field(max_length=128)] = Field(
        default_factory=list, description="tools that a mind may call; an empty list gives none"
    )
    resources: CellResources | None = Field(
        default=None, description="limits of tokens, money, CPU and memory"
    )
    recursion: Recursion | None = Field(
        default=None, description="limits of cells that this cell makes"
    )
    knowledge: CellKnowledge | None = Field(
        default=None, description="what the cell is given of what is known"
    )
    service_account_name: Reference | None = Field(
        default=None,
        description=(
            "account to run under instead of the cell's own; usable only when that account carries "
            'the annotation kais.io/allow-cells: "true"'
        ),
    )
    api_access: Bool = Field(
        default=False, description="true mounts the account's token for the Kubernetes API"
    )

    @property
    def effective_mode(self) -> CellMode:
        """The mode, or what it is when unset."""
        if self.mode is not None:
            return self.mode
        return CellMode.SERVICE if self.mind is not None else CellMode.TASK
