"""Which of the named namespaces are absent, by what their lists answer.

A Role goes with its namespace, so lists in a namespace that does not exist are Forbidden, as they
are in one without the Role. The operator may not read namespaces, so it cannot tell these apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

Watch = tuple[str, str | None]
"""A kind and a namespace; None for all namespaces."""


def absent_namespaces(
    watches: Iterable[Watch],
    *,
    named: AbstractSet[str],
    operator_namespace: str,
    listed: AbstractSet[Watch],
    forbidden: AbstractSet[Watch],
) -> frozenset[str]:
    """Return the named namespaces in which every list is forbidden, while another one works.

    If none works, the operator lacks its rights, and no namespace counts as absent. The operator's
    own is never absent. `forbidden` contains the watches whose last list was forbidden, `listed`
    those that were listed at some time.
    """
    watches_in: dict[str, set[Watch]] = {}
    for kind, namespace in watches:
        if namespace is not None and namespace in named:
            watches_in.setdefault(namespace, set()).add((kind, namespace))
    if not any((own & listed) - forbidden for own in watches_in.values()):
        return frozenset()
    return frozenset(
        namespace
        for namespace, own in watches_in.items()
        if namespace != operator_namespace and own <= forbidden
    )
