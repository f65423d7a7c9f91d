"""Every kind of key that the queue knows, with its reconciler."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kais_operator.observe import (
    blueprint,
    blueprint_instance,
    blueprint_revision,
    cell,
    formation,
    knowledge_scope,
    mission,
    outbox,
    realm,
)
from kais_operator.observe.reconcilers import Reconciler

_MODULES = (
    blueprint,
    blueprint_revision,
    blueprint_instance,
    formation,
    cell,
    mission,
    knowledge_scope,
    realm,
    outbox,
)
RECONCILERS: Mapping[str, Reconciler] = MappingProxyType(
    {module.RECONCILER.kind: module.RECONCILER for module in _MODULES}
)
