"""The reasons of conditions: CamelCase, part of the API, each with its meaning."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a condition has its status; `meaning` explains it in one sentence."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> "Reason":
        """Create a member whose value is the reason, with its meaning as an attribute."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # Every kind
    READY = "Ready", "all conditions that the summary depends on are True"
    RECONCILING = "Reconciling", "the operator has not processed this generation of the spec yet"
    INVALID = (
        "Invalid",
        "the object breaks a rule that the API server cannot check",
    )
    SUSPENDED = (
        "Suspended",
        "the object is paused: nothing is started until the annotation or field is removed",
    )
    DELETING = "Deleting", "the object is being deleted; the message names what it waits for"
    STORE_UNAVAILABLE = (
        "StoreUnavailable",
        "the knowledge service does not answer, or does not take a call; the operator retries",
    )
    RENDERER_UNAVAILABLE = (
        "RendererUnavailable",
        "the renderer does not answer, so nothing can be rendered or matched; the operator retries",
    )
    NOT_YET_SUPPORTED = (
        "NotYetSupported",
        "the field is accepted, but has no effect in this version",
    )

    # Blueprint and BlueprintRevision
    COMPILED = "Compiled", "the template compiles and renders with its defaults and examples"
    NOT_SAMPLED = (
        "NotSampled",
        "the template compiles, but was not rendered: a parameter has neither default nor example",
    )
    TEMPLATE_ERROR = (
        "TemplateError",
        "a leaf of the template has an error; the message has its path",
    )
    TOO_LARGE = (
        "TooLarge",
        "a field exceeds a limit of the API server or of a process; the message names it",
    )
    COMPATIBLE = "Compatible", "instances of the previous revision can use this one unchanged"
    BREAKING_CHANGE = "BreakingChange", "the revision may break instances of the previous one"
    FIRST_REVISION = "FirstRevision", "there is no previous revision to be compatible with"
    SERVED = "Served", "new instances get this revision"
    LAST_GOOD_SERVED = (
        "LastGoodServed",
        "the newest revision does not compile; an older one is served",
    )
    CANARY_RUNNING = (
        "CanaryRunning",
        "a share of new instances gets the new revision until runs decide",
    )
    PROMOTED = "Promoted", "the canary serves all new instances"
    REGRESSED = "Regressed", "runs of the canary succeeded less often; the old revision serves"
    UNDECIDED = (
        "Undecided",
        "the runs did not decide about the canary; promote it by hand, or apply a newer revision",
    )
    STOPPED = "Stopped", "a person stopped the canary; the old revision serves"
    NO_GOOD_REVISION = "NoGoodRevision", "no revision compiles, so the Blueprint cannot be used"

    # BlueprintInstance
    RESOLVED = "Resolved", "the revision of this instance exists and is pinned"
    BLUEPRINT_NOT_FOUND = "BlueprintNotFound", "the namespace has no Blueprint of that name"
    REVISION_NOT_FOUND = "RevisionNotFound", "the Blueprint has no such revision"
    PARAMETERS_VALID = "ParametersValid", "all parameters satisfy the rules of the revision"
    PARAMETERS_INVALID = (
        "ParametersInvalid",
        "parameters break rules of the revision; the message lists all violations",
    )
    UNKNOWN_PARAMETER = (
        "UnknownParameter",
        "the instance sets a parameter that the revision does not declare",
    )
    RENDERED = (
        "Rendered",
        "the template was rendered into a valid Formation and, if it has one, a Mission",
    )
    RENDER_FAILED = "RenderFailed", "the template fails with these parameters"
    UPDATE_WAITING = "UpdateWaiting", "a change waits until no mission of this instance is running"

    # Applying children
    APPLIED = "Applied", "the child objects are stored as specified; they may not be ready yet"
    APPLY_FAILED = "ApplyFailed", "the API server rejected a child object; the message says why"
    DRIFT_CONTESTED = (
        "DriftContested",
        "someone adds a field to a child object again after each removal; the message names it",
    )
    NAME_TAKEN = (
        "NameTaken",
        "an object with this name exists and is not controlled by this resource",
    )
    PLATFORM_NOT_ALLOWED = (
        "PlatformNotAllowed",
        "the platform's scope can be declared in the operator's namespace only",
    )
    DUPLICATE = "Duplicate", "an older object declares the same scope and takes precedence"

    # Cells and Formations
    CELLS_READY = "CellsReady", "all cells of the formation are ready"
    WAITING_FOR_CELLS = "WaitingForCells", "cells are not ready; the message names them"
    TOO_MANY_CELLS = "TooManyCells", "the formation has more cells than the maximum"
    PAUSED = "Paused", "the team has spent its limit per hour; the message says until when it waits"
    BUDGET_RESERVED = (
        "BudgetReserved",
        "other missions have reserved what a limit leaves; the message names it, and what to do",
    )
    ALLOCATION_INVALID = (
        "AllocationInvalid",
        "budget.allocation cannot be used; the message says why, and shares are equal until then",
    )
    TOPOLOGY_NOT_ENFORCED = (
        "TopologyNotEnforced",
        "the cell runs an A2A server that does not check who calls it",
    )
    TOPOLOGY_INVALID = (
        "TopologyInvalid",
        "a root, hub or route names a cell that the formation does not have",
    )
    SCALED_DOWN = (
        "ScaledDown",
        "the mission of this instance has ended, so its Service cells run no pods",
    )
    STANDBY = "Standby", "the template of the Task cell is valid; it runs when a mission needs it"
    WAITING_FOR_PODS = "WaitingForPods", "the pods are not ready yet"
    POD_NOT_CREATED = (
        "PodNotCreated",
        "the cluster refuses to create the pod, such as for a quota; the message says why",
    )
    POD_RUNNING = "PodRunning", "the pod is ready"
    POD_FAILED = "PodFailed", "the pod failed or keeps restarting; the message has the reason"
    IMAGE_PULL_FAILED = (
        "ImagePullFailed",
        "an image cannot be pulled; the message is from the kubelet",
    )
    UNSCHEDULABLE = "Unschedulable", "no node can run the pod; the message is from the scheduler"
    POD_STUCK = "PodStuckTerminating", "a pod cannot be terminated because its node does not answer"
    ACCOUNT_NOT_ALLOWED = (
        "AccountNotAllowed",
        'the ServiceAccount lacks the annotation kais.io/allow-cells: "true"',
    )
    POD_NOT_ALLOWED = (
        "PodNotAllowed",
        "the installation or the namespace does not allow a field of the pods; see the message",
    )
    UNKNOWN_TOOL = (
        "UnknownTool",
        "spec.tools names a tool that does not exist; the message names it",
    )
    NO_MODEL_ENDPOINT = (
        "NoModelEndpoint",
        "neither the mind nor the installation has an endpoint for the provider",
    )
    CONNECTED = "Connected", "the MCP server answered the latest run that used it"
    NOT_CONNECTED = "NotConnected", "no run has used the MCP server under this address yet"
    SERVER_UNAVAILABLE = (
        "ServerUnavailable",
        "the MCP server did not answer in time; runs continue without its tools",
    )
    SERVER_REFUSED = (
        "ServerRefused",
        "the MCP server refused the request, or a header for it is missing; the message says which",
    )
    SERVER_INVALID = (
        "ServerInvalid",
        "the MCP server answered with something that the agent runtime cannot use",
    )
    SPAWN_REFUSED = "SpawnRefused", "a cell above this one does not allow it; the message says why"
    REGISTERED = "Registered", "the cell and its scope are registered with the knowledge service"
    NOT_REGISTERED = "NotRegistered", "the cell is not registered with the knowledge service yet"

    # Missions
    FORMATION_NOT_FOUND = "FormationNotFound", "the namespace has no Formation of that name"
    CELL_NOT_FOUND = "CellNotFound", "the namespace has no Cell of that name"
    ENTRYPOINT_NOT_FOUND = (
        "EntrypointNotFound",
        "the entrypoint names a cell that the formation does not have",
    )
    WAITING_FOR_FORMATION = "WaitingForFormation", "the mission starts when its cells are ready"
    RUNNING = "Running", "an attempt is running"
    STARTED = "Started", "the first attempt was started"
    FINISHED = "Finished", "the run has ended with an outcome"
    ALREADY_RUN = "AlreadyRun", "the annotations record that this run has ended; it is not repeated"
    CHECKS_PASSED = "ChecksPassed", "all completion checks passed"
    CHECK_FAILED = "CheckFailed", "a completion check failed or could not be run"
    CHECKS_PENDING = "ChecksPending", "checks of the latest attempt are still pending"
    REVIEW_REQUESTED = (
        "ReviewRequested",
        "the work waits for a verdict in the annotation kais.io/review",
    )
    REVIEW_REJECTED = "ReviewRejected", "the reviewer rejected the last attempt"
    APPROVAL_REQUIRED = (
        "ApprovalRequired",
        "a tool call of the agent waits for a person; `kais approvals list` shows it",
    )
    APPROVAL_LIMIT_REACHED = (
        "ApprovalLimitReached",
        "a tool call waits, but a run can have no more approved calls; it ends with its timeout",
    )
    REVIEW_RUNNING = "ReviewRunning", "a cell reviews the work of the latest attempt"
    REVIEW_FAILED = "ReviewFailed", "the reviewing cell gave no verdict, which is no approval"
    REVIEWER_NOT_ALLOWED = "ReviewerNotAllowed", "a cell cannot review its own work"
    NO_CHECKS = "NoChecks", "the mission has no checks; the exit code decides"
    TASK_FAILED = "TaskFailed", "the task of the last attempt exited with an error"
    RETRYING = "Retrying", "an attempt failed; the next one is being prepared"
    TIMED_OUT = "TimedOut", "the time limit for all attempts was exceeded"
    BUDGET_EXCEEDED = "BudgetExceeded", "the cost limit was exceeded"
    CANCELLED = "Cancelled", "the run was aborted; it does not count towards the success rate"
    INFRASTRUCTURE_FAILED = (
        "InfrastructureFailed",
        "the cluster could not run the work; the run does not count towards the success rate",
    )
    NO_MISSION = "NoMission", "the Blueprint has no mission, so there is no outcome"

    # Recording and extraction
    RUN_OPEN = "RunOpen", "the run is open in the ledger"
    RECORDED = "Recorded", "the run and its outcome are recorded in the ledger"
    RECORDING_PENDING = "RecordingPending", "the end of the run is not recorded in the ledger yet"
    RECORDING_REFUSED = (
        "RecordingRefused",
        "the knowledge service rejected the record of the run",
    )
    EXTRACTION_PENDING = (
        "ExtractionPending",
        "extraction is running, or waits for the end of the run",
    )
    EXTRACTED = "Extracted", "facts of the run are stored"
    NOTHING_TO_EXTRACT = "NothingToExtract", "the record of the run contains no reusable fact"
    EXTRACTION_FAILED = (
        "ExtractionFailed",
        "extraction failed for good; the outcome of the run is not affected",
    )
    EXTRACTION_DISABLED = "ExtractionDisabled", "the mission or its scope disables extraction"

    # KnowledgeScopes
    STORE_REACHABLE = "StoreReachable", "the knowledge service answers"
    CONFIGURED = "Configured", "the settings are in effect in the knowledge service"
    CONFIGURATION_FAILED = (
        "ConfigurationFailed",
        "the knowledge service rejected the settings",
    )
    DELETION_PENDING = (
        "DeletionPending",
        "an earlier deletion of the same scope is still in the outbox",
    )


WARNING_REASONS = frozenset(
    {
        Reason.ACCOUNT_NOT_ALLOWED,
        Reason.ALLOCATION_INVALID,
        Reason.APPLY_FAILED,
        Reason.BLUEPRINT_NOT_FOUND,
        Reason.BUDGET_EXCEEDED,
        Reason.CHECK_FAILED,
        Reason.CELL_NOT_FOUND,
        Reason.CONFIGURATION_FAILED,
        Reason.DUPLICATE,
        Reason.ENTRYPOINT_NOT_FOUND,
        Reason.EXTRACTION_FAILED,
        Reason.FORMATION_NOT_FOUND,
        Reason.IMAGE_PULL_FAILED,
        Reason.INFRASTRUCTURE_FAILED,
        Reason.INVALID,
        Reason.NAME_TAKEN,
        Reason.NO_GOOD_REVISION,
        Reason.NO_MODEL_ENDPOINT,
        Reason.NOT_YET_SUPPORTED,
        Reason.PARAMETERS_INVALID,
        Reason.PAUSED,
        Reason.PLATFORM_NOT_ALLOWED,
        Reason.POD_FAILED,
        Reason.POD_NOT_CREATED,
        Reason.POD_STUCK,
        Reason.RENDER_FAILED,
        Reason.RETRYING,
        Reason.REVIEW_FAILED,
        Reason.REVIEW_REJECTED,
        Reason.REVIEWER_NOT_ALLOWED,
        Reason.REVISION_NOT_FOUND,
        Reason.SERVER_INVALID,
        Reason.SERVER_REFUSED,
        Reason.SERVER_UNAVAILABLE,
        Reason.SPAWN_REFUSED,
        Reason.STORE_UNAVAILABLE,
        Reason.TASK_FAILED,
        Reason.TEMPLATE_ERROR,
        Reason.TIMED_OUT,
        Reason.TOO_LARGE,
        Reason.TOO_MANY_CELLS,
        Reason.TOPOLOGY_INVALID,
        Reason.UNKNOWN_TOOL,
        Reason.UNSCHEDULABLE,
    }
)
"""Reasons that are worth an Event, whatever the status of the condition."""
