"""The reasons that conditions give: CamelCase, part of the API, each with its meaning beside it."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a condition has its status; `meaning` is the sentence the reference prints."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> "Reason":
        """Make a member that is its value and knows its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # Every kind
    READY = "Ready", "everything that the summary stands on holds"
    RECONCILING = "Reconciling", "the operator has not got that far for this edition of the spec"
    INVALID = "Invalid", "the object breaks rules that the API server could not check"
    SUSPENDED = (
        "Suspended",
        "somebody paused the object; nothing is started until that is taken back",
    )
    DELETING = "Deleting", "deletion was asked for; the message names what it waits for"
    STORE_UNAVAILABLE = (
        "StoreUnavailable",
        "the knowledge service does not answer; it is asked again",
    )
    RENDERER_UNAVAILABLE = (
        "RendererUnavailable",
        "the renderer does not answer, so no template or pattern can be judged; it is asked again",
    )
    NOT_YET_SUPPORTED = "NotYetSupported", "accepted, but this version has no behaviour for it"

    # Blueprint and BlueprintRevision
    COMPILED = "Compiled", "the template parses and renders with its defaults and examples"
    NOT_SAMPLED = (
        "NotSampled",
        "the template parses; it was not rendered, as a parameter has neither default nor example",
    )
    TEMPLATE_ERROR = "TemplateError", "a leaf of the template is wrong; the message has its path"
    TOO_LARGE = (
        "TooLarge",
        "exceeds a limit of the API server or of a process; the message names the field",
    )
    COMPATIBLE = "Compatible", "callers of the revision before can use this one as they are"
    BREAKING_CHANGE = "BreakingChange", "callers of the revision before may break on this one"
    FIRST_REVISION = "FirstRevision", "there is no revision before, so nobody can break"
    SERVED = "Served", "new uses get this revision"
    LAST_GOOD_SERVED = "LastGoodServed", "the newest revision does not compile; an older one serves"
    NO_GOOD_REVISION = "NoGoodRevision", "no revision compiles, so there is nothing to use"

    # BlueprintInstance
    RESOLVED = "Resolved", "the revision that this use stands on is found and kept"
    BLUEPRINT_NOT_FOUND = "BlueprintNotFound", "no Blueprint of that name is in the namespace"
    REVISION_NOT_FOUND = "RevisionNotFound", "the Blueprint has no such revision"
    PARAMETERS_VALID = "ParametersValid", "all parameters obey the rules of the revision"
    PARAMETERS_INVALID = "ParametersInvalid", "the message lists every violation"
    UNKNOWN_PARAMETER = (
        "UnknownParameter",
        "only names that the revision does not declare are wrong",
    )
    RENDERED = "Rendered", "the template gave a valid Formation and, if it has one, a Mission"
    RENDER_FAILED = "RenderFailed", "the template failed with these parameters"
    UPDATE_WAITING = "UpdateWaiting", "a change waits until no mission of this use runs"

    # Applying children
    APPLIED = "Applied", "the children are stored as wanted; they may not work yet"
    APPLY_FAILED = "ApplyFailed", "the API server refused a child; the message has its words"
    DRIFT_CONTESTED = (
        "DriftContested",
        "an addition to a child returns after each removal; the message names it",
    )
    NAME_TAKEN = "NameTaken", "an object of the child's name belongs to somebody else"
    PLATFORM_NOT_ALLOWED = (
        "PlatformNotAllowed",
        "the platform's scope is declared in the operator's namespace only",
    )
    DUPLICATE = "Duplicate", "an older object describes the same scope and is the one that counts"

    # Cells and Formations
    CELLS_READY = "CellsReady", "every cell of the formation is ready"
    WAITING_FOR_CELLS = "WaitingForCells", "the message names the cells that are not ready"
    TOO_MANY_CELLS = "TooManyCells", "the templates ask for more cells than a formation may have"
    TOPOLOGY_INVALID = "TopologyInvalid", "a root, hub or route names no cell of the formation"
    SCALED_DOWN = (
        "ScaledDown",
        "the mission of this use has ended, so its Service cells run no pods",
    )
    STANDBY = "Standby", "a task cell whose template is valid; it runs when a mission asks"
    WAITING_FOR_PODS = "WaitingForPods", "the pods are not ready yet"
    POD_NOT_CREATED = (
        "PodNotCreated",
        "the cluster refuses to make the pod, such as by a quota; the message has its words",
    )
    POD_RUNNING = "PodRunning", "the pod is ready"
    POD_FAILED = "PodFailed", "the pod ended or restarts again and again; the message has its words"
    IMAGE_PULL_FAILED = "ImagePullFailed", "an image cannot be pulled; the message is the kubelet's"
    UNSCHEDULABLE = "Unschedulable", "no node takes the pod; the message is the scheduler's"
    POD_STUCK = "PodStuckTerminating", "a pod stays on a node that does not answer"
    ACCOUNT_NOT_ALLOWED = (
        "AccountNotAllowed",
        'the ServiceAccount does not say kais.io/allow-cells: "true"',
    )
    SPAWN_REFUSED = "SpawnRefused", "a cell above this one does not allow it; the message says why"
    REGISTERED = "Registered", "the knowledge service knows the cell's identity and scope"
    NOT_REGISTERED = "NotRegistered", "the knowledge service has not been told of the cell yet"

    # Missions
    FORMATION_NOT_FOUND = "FormationNotFound", "no Formation of that name is in the namespace"
    CELL_NOT_FOUND = "CellNotFound", "no Cell of that name is in the namespace"
    ENTRYPOINT_NOT_FOUND = "EntrypointNotFound", "the entrypoint names no cell of the formation"
    WAITING_FOR_FORMATION = "WaitingForFormation", "the mission starts once its cells are ready"
    RUNNING = "Running", "an attempt is under way"
    STARTED = "Started", "the first attempt was started"
    FINISHED = "Finished", "the run has its outcome"
    ALREADY_RUN = "AlreadyRun", "the annotations say that this run ended; it is not run again"
    CHECKS_PASSED = "ChecksPassed", "every completion check passed"
    CHECK_FAILED = "CheckFailed", "a completion check failed or could not be run"
    CHECKS_PENDING = "ChecksPending", "the checks of the latest attempt have not all been judged"
    REVIEW_REQUESTED = (
        "ReviewRequested",
        "the work waits for a verdict in the annotation kais.io/review",
    )
    REVIEW_REJECTED = "ReviewRejected", "the reviewer rejected the work of the last attempt"
    NO_CHECKS = "NoChecks", "the mission declares no checks; the exit code decides"
    TASK_FAILED = "TaskFailed", "the task of the last attempt exited with an error"
    RETRYING = "Retrying", "an attempt failed and the next one is prepared"
    TIMED_OUT = "TimedOut", "the time for all attempts ran out"
    BUDGET_EXCEEDED = "BudgetExceeded", "the cost limit was reached"
    CANCELLED = "Cancelled", "somebody asked for the end; this run is in no rate"
    INFRASTRUCTURE_FAILED = (
        "InfrastructureFailed",
        "the cluster could not run the work; this run is in no rate",
    )
    NO_MISSION = "NoMission", "the blueprint has no mission, so there is no outcome to wait for"

    # Recording and extraction
    RUN_OPEN = "RunOpen", "the ledger has the run open"
    RECORDED = "Recorded", "the ledger has the run with its outcome"
    RECORDING_PENDING = "RecordingPending", "the ledger does not have the run's end yet"
    RECORDING_REFUSED = "RecordingRefused", "the knowledge service refuses what is told of the run"
    EXTRACTION_PENDING = "ExtractionPending", "extraction was asked for or waits for the run's end"
    EXTRACTED = "Extracted", "facts of the run are stored"
    NOTHING_TO_EXTRACT = "NothingToExtract", "the record of the run proves no reusable fact"
    EXTRACTION_FAILED = "ExtractionFailed", "extraction gave up; the outcome of the run stays"
    EXTRACTION_DISABLED = "ExtractionDisabled", "the mission or its scope asked for no extraction"

    # KnowledgeScopes
    STORE_REACHABLE = "StoreReachable", "the knowledge service answers"
    CONFIGURED = "Configured", "the knowledge service has these settings"
    CONFIGURATION_FAILED = "ConfigurationFailed", "the knowledge service refused the settings"
