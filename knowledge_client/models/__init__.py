"""The bodies of the knowledge service's HTTP interface: one model for client and service.

Times are aware UTC datetimes. Scopes are paths (`realm:demo/formation:review-team`) or `WireScope`.
Sizes that a body may have are the service's limits; an answer of 413 or 422 names the one passed.
"""

from knowledge_client.models.extractions import (
    Extraction,
    ExtractionIn,
)
from knowledge_client.models.facts import (
    Corrected,
    CorrectIn,
    Fact,
    FactIn,
    FactPage,
    FactsIn,
    Ref,
    Remembered,
    RememberedBatch,
    ScopeRef,
    Source,
)
from knowledge_client.models.principals import (
    Grant,
    PrincipalIn,
    PrincipalPage,
    StoreId,
    Subject,
    Verb,
    WhoAmI,
)
from knowledge_client.models.problems import (
    Health,
    Problem,
    ProblemViolation,
)
from knowledge_client.models.recall import (
    ActAs,
    Recalled,
    RecalledFact,
    RecallIn,
    Receipt,
)
from knowledge_client.models.runs import (
    Episode,
    EpisodeIn,
    EpisodePage,
    EpisodesAccepted,
    EpisodesIn,
    EpisodeType,
    Run,
    RunIn,
    RunOutcome,
    RunPage,
)
from knowledge_client.models.scopes import (
    ExtractionConfig,
    Injection,
    Promotion,
    Retention,
    ScopeConfig,
    ScopeOut,
    ScopePage,
)
from knowledge_client.models.stats import (
    BlueprintName,
    BlueprintStats,
    Counts,
    Interval,
    RevisionStats,
    ScopeStats,
    Stats,
    StatsIn,
)
from knowledge_client.wire import WireScope

__all__ = [
    "ActAs",
    "BlueprintName",
    "BlueprintStats",
    "CorrectIn",
    "Corrected",
    "Counts",
    "Episode",
    "EpisodeIn",
    "EpisodePage",
    "EpisodeType",
    "EpisodesAccepted",
    "EpisodesIn",
    "Extraction",
    "ExtractionConfig",
    "ExtractionIn",
    "Fact",
    "FactIn",
    "FactPage",
    "FactsIn",
    "Grant",
    "Health",
    "Injection",
    "Interval",
    "PrincipalIn",
    "PrincipalPage",
    "Problem",
    "ProblemViolation",
    "Promotion",
    "RecallIn",
    "Recalled",
    "RecalledFact",
    "Receipt",
    "Ref",
    "Remembered",
    "RememberedBatch",
    "Retention",
    "RevisionStats",
    "Run",
    "RunIn",
    "RunOutcome",
    "RunPage",
    "ScopeConfig",
    "ScopeOut",
    "ScopePage",
    "ScopeRef",
    "ScopeStats",
    "Source",
    "Stats",
    "StatsIn",
    "StoreId",
    "Subject",
    "Verb",
    "WhoAmI",
    "WireScope",
]
