"""The registry of the seven kinds, in the order in which users meet them."""

from collections.abc import Mapping
from typing import Any

from kais.errors import InvalidResource, Violation
from kais.resources.base import Model, Resource
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.knowledge_scope import KnowledgeScope
from kais.resources.mission import Mission

KINDS: tuple[type[Resource], ...] = (
    Blueprint,
    BlueprintRevision,
    BlueprintInstance,
    Formation,
    Cell,
    Mission,
    KnowledgeScope,
)
BY_NAME: Mapping[str, type[Resource]] = {kind.__name__: kind for kind in KINDS}


def read(data: Mapping[str, Any]) -> Resource:
    """Read an object of any of the kinds.

    Raises:
        InvalidResource: The kind is unknown, or the object is invalid.
    """
    kind = BY_NAME.get(str(data.get("kind")))
    if kind is None:
        kinds = ", ".join(BY_NAME)
        raise InvalidResource(
            str(data.get("kind")), [Violation("kind", f"is not a kind of kais: {kinds}")]
        )
    return kind.from_dict(data)


def build_validators() -> None:
    """Build the validators of all models now; otherwise the first use of each model does it."""
    models: list[type[Model]] = [Model]
    while models:
        model = models.pop()
        model.model_rebuild()
        models.extend(model.__subclasses__())
