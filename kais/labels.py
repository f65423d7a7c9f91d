"""Every label, annotation, finalizer, identity and environment name of kais, in one place."""

from typing import Final

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "kais"
"""Value of MANAGED_BY on every object that the operator makes."""

# Labels: what an object is part of.
BLUEPRINT: Final = "kais.io/blueprint"
REVISION: Final = "kais.io/revision"
INSTANCE: Final = "kais.io/instance"
FORMATION: Final = "kais.io/formation"
CELL: Final = "kais.io/cell"
CELL_TEMPLATE: Final = "kais.io/cell-template"
MISSION: Final = "kais.io/mission"
ROLE: Final = "kais.io/role"
ROLE_CELL: Final = "cell"
ROLE_OUTBOX: Final = "outbox"
SPEC_HASH: Final = "kais.io/spec-hash"
"""Hash of the owner's whole name, because a label holds 63 characters and a name 253."""

# Annotations that a user writes.
ABORT: Final = "kais.io/abort"
RERUN: Final = "kais.io/rerun"
"""A nonce; each begins a run of its own. An instance copies it onto its Mission once it has stamped
itself with `names.run_id(its uid, nonce)`; its Mission takes that same run-id."""
REVIEW: Final = "kais.io/review"
RECONCILE: Final = "kais.io/reconcile"
RECONCILE_SUSPENDED: Final = "suspended"
ALLOW_BREAKING_CHANGES: Final = "kais.io/allow-breaking-changes"
ALLOW_CELLS: Final = "kais.io/allow-cells"

# Annotations that the operator writes: what must outlive status.
LAST_REVISION: Final = "kais.io/last-revision"
LAST_REVISION_HASH: Final = "kais.io/last-revision-hash"
RUN_ID: Final = "kais.io/run-id"
OUTCOME: Final = "kais.io/outcome"
RERUN_TAKEN: Final = "kais.io/rerun-taken"
"""On a Mission or instance, with the run-id: the nonce of RERUN that the run was begun for."""
RUN_KIND: Final = "kais.io/run-kind"
RUN_KIND_SESSION: Final = "session"
"""On an instance whose run has no mission; a mission that a later revision adds is not its own."""
FIXED_PARAMETERS: Final = "kais.io/fixed-parameters"
"""On an instance: what its immutable parameters were when its run began, as JSON."""
SCALED_DOWN: Final = "kais.io/scaled-down"
"""On the Formation of a use, set by its instance: the run that has ended, so Service cells rest at
zero replicas; the instance takes it away before another run begins."""
ACCEPTED_AT: Final = "kais.io/accepted-at"
"""On a Mission: when the operator took it up; its start deadline counts from then."""
ENDING: Final = "kais.io/ending"
"""On a Mission, with the outcome: how its run went, as JSON, when its Jobs are gone."""
ATTEMPT: Final = "kais.io/attempt"
RECEIPT: Final = "kais.io/receipt"
"""On the map of an attempt: the receipt of the recall that filled it; empty without one."""
INJECTED: Final = "kais.io/injected"
"""On the map of an attempt: how many facts are in it."""
INJECTION_PROBLEM: Final = "kais.io/injection-problem"
"""On the map of an attempt: why it holds no facts, when the store was the reason."""
KNOWLEDGE_KEY: Final = "knowledge.json"
SERVED_REVISION: Final = "kais.io/served-revision"
"""On a Blueprint: the revision that serves; neither a bad edit nor a wiped status moves it."""
ARM: Final = "kais.io/arm"
"""On the Mission of an instance: on, off or holdout, whether the run is given knowledge."""

FINALIZER: Final = "kais.io/finalizer"
CATEGORY: Final = "kais"

# Field managers: one per role, so that each field has one writer.
MANAGER_CHILDREN: Final = "kais-operator"
MANAGER_STATUS: Final = "kais-operator-status"
MANAGER_METADATA: Final = "kais-operator-metadata"
"""Annotations and finalizers that the operator puts on objects: no apply may take them away."""
MANAGER_CLI: Final = "kais-cli"

LEASE: Final = "kais-operator"
AUDIENCE: Final = "kais-knowledge"
"""Audience of the projected token that a cell shows to the knowledge service."""
USER_ACCOUNT: Final = "kais-user"
"""ServiceAccount of a realm whose token the CLI may ask for."""
ROUTES_KEY: Final = "routes.json"

# Environment of every cell.
ENV_CELL_NAME: Final = "CELL_NAME"
ENV_CELL_NAMESPACE: Final = "CELL_NAMESPACE"
ENV_CELL_SPEC: Final = "CELL_SPEC"
ENV_KNOWLEDGE_SERVICE_URL: Final = "KNOWLEDGE_SERVICE_URL"
ENV_KNOWLEDGE_SCOPE: Final = "KNOWLEDGE_SCOPE"
ENV_KNOWLEDGE_GRAPH_ID: Final = "KNOWLEDGE_GRAPH_ID"
"""The same value as KNOWLEDGE_SCOPE, for clients written before scopes had paths."""
ENV_KNOWLEDGE_TOKEN_FILE: Final = "KNOWLEDGE_TOKEN_FILE"  # noqa: S105 - a name, no secret
ENV_FORMATION: Final = "KAIS_FORMATION"
ENV_PEERS_FILE: Final = "KAIS_PEERS_FILE"

# Environment of a task's attempt.
ENV_MISSION: Final = "KAIS_MISSION"
ENV_RUN_ID: Final = "KAIS_RUN_ID"
ENV_ATTEMPT: Final = "KAIS_ATTEMPT"
ENV_OBJECTIVE: Final = "KAIS_OBJECTIVE"
ENV_MESSAGE: Final = "KAIS_MESSAGE"
ENV_FEEDBACK: Final = "KAIS_FEEDBACK"
ENV_KNOWLEDGE_FILE: Final = "KAIS_KNOWLEDGE_FILE"
