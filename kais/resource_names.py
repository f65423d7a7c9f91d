"""The names of the kinds in paths and on command lines, without the models, which load slowly."""

from collections.abc import Mapping
from typing import NamedTuple


class ResourceName(NamedTuple):
    """The plural, as in paths of the API, and the short name for kubectl."""

    plural: str
    short: str


BY_KIND: Mapping[str, ResourceName] = {
    "Blueprint": ResourceName("blueprints", "bp"),
    "BlueprintRevision": ResourceName("blueprintrevisions", "bpr"),
    "BlueprintInstance": ResourceName("blueprintinstances", "bpi"),
    "Formation": ResourceName("formations", "fm"),
    "Cell": ResourceName("cells", "cl"),
    "Mission": ResourceName("missions", "ms"),
    "KnowledgeScope": ResourceName("knowledgescopes", "ksc"),
}
