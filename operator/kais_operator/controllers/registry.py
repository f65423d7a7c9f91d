"""The controllers of all kinds of keys in the work queue."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kais_operator.controllers.base import Controller
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.mission.observe import mission
from kais_operator.controllers.namespace_account import observe as realm
from kais_operator.controllers.outbox import observe as outbox

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
CONTROLLERS: Mapping[str, Controller] = MappingProxyType(
    {module.CONTROLLER.kind: module.CONTROLLER for module in _MODULES}
)
