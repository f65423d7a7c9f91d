"""The maximum number of live facts in a scope without a KnowledgeScope. Pure.

A declared scope has its own bound, `retention.maxFacts`, beyond which facts are archived. Nothing
is ever archived in an undeclared scope, so what agents add there must be limited.
"""

from __future__ import annotations

from knowledge_service.errors import QuotaExceeded

# A recall in a scope of this size takes about 4 ms.
UNDECLARED_FACTS = 50_000
# Only a person can make room, so waiting does not help: clients with a shorter deadline give up.
_RETRY_AFTER_S = 60


def scope_full_error(scope: str, bound: int) -> QuotaExceeded:
    """Return the error for one more live fact."""
    return QuotaExceeded(
        f"scope {scope} holds {bound} live facts, the maximum for a scope without a KnowledgeScope;"
        " declare one with spec.retention.maxFacts, or retract facts that are out of date",
        retry_after_s=_RETRY_AFTER_S,
    )
