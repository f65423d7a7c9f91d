"""Every label, annotation, finalizer, identity and environment variable name of kais."""

from typing import Final

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "kais"
"""Value of MANAGED_BY on every object that the operator creates."""

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
CELL_MODE: Final = "kais.io/cell-mode"
"""On the pods of a Service cell. The pods of an attempt have the same cell label, and the Service
must not select them.
"""
SPEC_HASH: Final = "kais.io/spec-hash"
"""Hash of the spec from which an object was made; another hash means an older rendering."""

# Annotations that a user writes.
ABORT: Final = "kais.io/abort"
RERUN: Final = "kais.io/rerun"
"""A nonce; each starts a separate run. An instance stamps itself with `names.run_id(its uid,
nonce)` and then copies the nonce to its Mission, which uses the same run-id.
"""
REVIEW: Final = "kais.io/review"
REVIEWED_BY: Final = "kais.io/reviewed-by"
"""Beside the annotation for a review: the user name of who wrote it. The admission policy of the
chart requires it, and compares it with the request.
"""
APPROVAL: Final = "kais.io/approval"
"""On a Mission: what a person decided about one tool call, as `kais.approvals` describes."""
APPROVAL_BY: Final = "kais.io/approval-by"
"""With APPROVAL: the user name of its author. The admission policy of the chart compares it with
the request, and refuses ServiceAccounts.
"""
CANARY_REQUEST: Final = "kais.io/canary-request"
"""On a Blueprint: `promote` or `stop` and the revision of its canary. The operator removes it."""
RECONCILE: Final = "kais.io/reconcile"
RECONCILE_SUSPENDED: Final = "suspended"
ALLOW_BREAKING_CHANGES: Final = "kais.io/allow-breaking-changes"
ALLOW_CELLS: Final = "kais.io/allow-cells"
APPROVED: Final = "kais.io/approved"
"""On a Cell that another cell created, if the spawnPolicy of the creator requires approval:
"true".
"""
APPROVED_YES: Final = "true"
APPROVED_BY: Final = "kais.io/approved-by"
"""With APPROVED: the user name of who approved. The admission policy of the chart requires it, and
compares it with the request.
"""
CREATED_BY: Final = "kais.io/created-by"
"""On a Cell whose creator may not approve cells: the user name of the creator. The admission
policy of the chart requires it, compares it with the request, and rejects every change of it.
"""
APPROVED_CELLS: Final = "kais.io/approved-cells"
"""On the ServiceAccount of a cell, where no admission policy is in force: names of Cells that the
cell may create although its spawnPolicy requires approval, separated by spaces or commas.
"""

# Annotations that the operator writes: what must outlive status.
ANCESTORS_PREFIX: Final = "ancestors.kais.io/"
"""On the ServiceAccount USER_ACCOUNT, followed by the name of an account: the accounts of the
cells above those that ran under it, as JSON.
"""
LIMITS_PREFIX: Final = "limits.kais.io/"
"""On the ServiceAccount USER_ACCOUNT, followed by the name of a Cell, where no admission policy is
in force: the spawn limits and the account that it had when the operator first observed it with
`apiAccess`, as JSON.
"""
LAST_REVISION: Final = "kais.io/last-revision"
LAST_REVISION_HASH: Final = "kais.io/last-revision-hash"
COLLECT_AFTER: Final = "kais.io/collect-after"
"""On an unreferenced revision: when it is deleted, unless it is referenced before that."""
RUN_ID: Final = "kais.io/run-id"
RUN_OBJECT: Final = "kais.io/run-object"
"""With the run-id: hash of kind, namespace and name of the object that the run belongs to. It
distinguishes a copy of the object from a restored one.
"""
OUTCOME: Final = "kais.io/outcome"
TRACEPARENT: Final = "kais.io/traceparent"
"""On an instance or Mission: the trace of its run, in the form of W3C Trace Context.

The operator keeps a valid value; otherwise it sets one that it derives from the run-id.
"""
PARAMETERS: Final = "kais.io/parameters"
"""On the Mission of an instance: the parameters of its run, with defaults, as JSON."""
RERUN_TAKEN: Final = "kais.io/rerun-taken"
"""On a Mission or instance, with the run-id: the nonce of RERUN that the run was started for."""
RUN_KIND: Final = "kais.io/run-kind"
RUN_KIND_SESSION: Final = "session"
"""On an instance whose run has no mission. A mission that a later revision adds does not belong to
that run.
"""
FIXED_PARAMETERS: Final = "kais.io/fixed-parameters"
"""On an instance: its immutable parameters as they were when its run started, as JSON."""
ACCEPTED_AT: Final = "kais.io/accepted-at"
"""On a Mission: when the operator accepted it; its start deadline is counted from then."""
HELD_UNTIL: Final = "kais.io/held-until"
"""On a Mission that was held back before its first attempt, for example suspended: when that ended,
or STILL_HELD. Its start deadline is counted from then.
"""
STILL_HELD: Final = "open"
ENDING: Final = "kais.io/ending"
"""On a Mission, with the outcome: how its run went, as JSON, for when its Jobs are deleted."""
SCALED_DOWN: Final = "kais.io/scaled-down"
"""On a Formation, which passes it to its Cells: "true" keeps Service cells without pods. The
instance sets it when the run has ended, and removes it before the next run starts.
"""
SCALED_DOWN_YES: Final = "true"
RENDERED_FROM: Final = "kais.io/rendered-from"
"""On a Deployment: hash of the input of its pod template; it is rendered again if the hash
changes.
"""
RENDERED: Final = "kais.io/rendered"
"""On a Deployment: hash of the rendered template; it differs if another version rendered it."""
RENDERED_DEFAULTS: Final = "kais.io/rendered-defaults"
"""The installation's defaults of the pod fields in this pod template, as JSON."""
REMOVED_ADDITIONS: Final = "kais.io/removed-additions"
"""On a Deployment or Service: the number of consecutive removals of additions, and the last time.
"""
CELL_USAGE: Final = "kais.io/usage"
"""On a Cell with a mind: what its ended runs cost, as JSON."""
REMOVED_USAGE: Final = "kais.io/removed-usage"
"""On a Formation: what the cells that it removed had cost, as JSON."""
MCP_SERVERS: Final = "kais.io/mcp-servers"
"""On a Cell with a mind: what its runs report about its MCP servers, as JSON."""
RESERVATIONS: Final = "kais.io/reservations"
"""On a Formation with a budget, or a Cell with limits: what open runs may still cost, as JSON."""
MAX_COST: Final = "kais.io/max-cost"
"""On the pod of an attempt under a limit on costs, and in the pod template of its Job: what the pod
may cost, in US dollars.
"""
COST_LIMIT_GATE: Final = "kais.io/cost-limit"
"""The scheduling gate of such a pod: the operator removes it when MAX_COST says what is left."""
GATE_OPENED_AT: Final = "kais.io/gate-opened-at"
"""On such a pod: when the operator removed the gate; its start deadline is counted from then."""
USAGE_COUNTED: Final = "kais.io/usage-counted"
"""On a Mission: the run-id whose cost is part of the sum on its Cell."""
ATTEMPTS: Final = "kais.io/attempts"
"""On a Mission with an unfinished run: the results of its attempts so far, as JSON."""
EARLIER_RUNS: Final = "kais.io/earlier-runs"
"""On a Mission that was run again: how its latest earlier runs ended, as JSON."""
ATTEMPT: Final = "kais.io/attempt"
REFUSED: Final = "kais.io/refused"
"""On an outbox: why the knowledge service permanently rejects its calls. Removing the annotation
repeats them.
"""
RECEIPT: Final = "kais.io/receipt"
"""On the ConfigMap of an attempt: the receipt of the recall that filled it; empty without one."""
INJECTED: Final = "kais.io/injected"
"""On the ConfigMap of an attempt: the number of facts in it."""
INJECTION_PROBLEM: Final = "kais.io/injection-problem"
"""On the ConfigMap of an attempt: why it contains no facts, if the knowledge service was the
cause.
"""
KNOWLEDGE_KEY: Final = "knowledge.json"
SERVED_REVISION: Final = "kais.io/served-revision"
"""On a Blueprint: the served revision. Neither an invalid edit nor a deleted status changes it."""
CANARY: Final = "kais.io/canary"
"""On a Blueprint, and on the revision that is tried: the canary with the verdict, as `kais.canary`
describes.
"""
CANARY_LOT: Final = "kais.io/canary-lot"
"""On an instance and its Mission: the canary for which the use drew its revision by lot. A use that
names its revision, or follows its Blueprint, draws none.
"""
ARM: Final = "kais.io/arm"
"""On the Mission of an instance: whether the run gets knowledge: on, off or holdout."""

FINALIZER: Final = "kais.io/finalizer"
CATEGORY: Final = "kais"

# Field managers: one per role, so that each field has one writer.
MANAGER_CHILDREN: Final = "kais-operator"
MANAGER_STATUS: Final = "kais-operator-status"
MANAGER_METADATA: Final = "kais-operator-metadata"
"""Owns the annotations and finalizers that the operator sets, so that no apply removes them."""
MANAGER_CLI: Final = "kais-cli"

EVENT_FORBIDDEN: Final = "Forbidden"
"""Reason of the Warning Event about an object for which the API server denied a request."""
EVENT_ALLOWED: Final = "Allowed"
"""Reason of the Event that follows when a reconcile is no longer denied."""
LEASE: Final = "kais-operator"
AUDIENCE: Final = "kais-knowledge"
"""Audience of the projected token with which a cell authenticates to the knowledge service."""
USER_ACCOUNT: Final = "kais-user"
"""ServiceAccount of a realm for which the CLI requests tokens."""
ROUTES_KEY: Final = "routes.json"
"""In a topology ConfigMap: the peers of every cell; absent if the lists do not fit."""
TOPOLOGY_KEY: Final = "topology.json"
"""In a topology ConfigMap: the routes as a versioned rule, in addition to `routes.json`."""

# Environment of every cell.
ENV_CELL_NAME: Final = "CELL_NAME"
ENV_CELL_NAMESPACE: Final = "CELL_NAMESPACE"
ENV_CELL_SPEC: Final = "CELL_SPEC"
ENV_CELL_SPEC_FILE: Final = "KAIS_CELL_SPEC_FILE"
"""Replaces CELL_SPEC if the spec is too large for a variable."""
CELL_SPEC_KEY: Final = "cell-spec.json"
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

# Environment of a cell with a mind, besides that of its attempt.
ENV_MODEL_URL: Final = "KAIS_MODEL_URL"
"""Endpoint of the model, if the mind of the cell names none."""
ENV_MODEL_KEY_FILE: Final = "KAIS_MODEL_KEY_FILE"
"""File with the key for the endpoint; it is read again for each call."""
ENV_MODEL_SECRET: Final = "KAIS_MODEL_SECRET"  # noqa: S105 - a name, no secret
"""Secret and key that the file comes from, as `secret/key`, for messages."""
ENV_INSTRUCTIONS_FILE: Final = "KAIS_INSTRUCTIONS_FILE"
"""File with the prompt of a mind whose spec contains none."""
ENV_MCP_HEADERS: Final = "KAIS_MCP_HEADERS"
"""Folder with the headers for MCP servers: a folder of each server, a file of each header."""
ENV_ARM: Final = "KAIS_ARM"
"""Whether the run gets knowledge: `on`, `off` or `holdout`; only for cells with a blackboard."""
ENV_CALLS_SINCE: Final = "KAIS_CALLS_SINCE"
"""The first of the attempts whose tool calls with an approval this attempt continues."""
ENV_PRICES: Final = "KAIS_PRICES"
"""Prices of models as JSON, in US dollars for a million tokens."""
ENV_MAX_COST: Final = "KAIS_MAX_COST"
"""The cost limit of this attempt in US dollars, from the budgets of mission and formation."""
ENV_COST_SPENT: Final = "KAIS_COST_SPENT"
ENV_COST_SPENT_HOUR: Final = "KAIS_COST_SPENT_HOUR"
"""The cost of earlier pods of the cell, in total and within the last hour, in US dollars."""
ENV_RESULT_BYTES: Final = "KAIS_RESULT_BYTES"
"""Maximum size of the termination message in bytes; the containers of a pod share 12 KiB."""
ENV_TERMINATION_FILE: Final = "KAIS_TERMINATION_FILE"
ENV_A2A_PORT: Final = "KAIS_A2A_PORT"
ENV_AGENT_STATE: Final = "KAIS_AGENT_STATE"
"""Folder for the state of the agent runtime, which no tool can name."""
