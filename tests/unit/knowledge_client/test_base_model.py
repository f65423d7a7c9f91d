from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge_client import base_model
from knowledge_client.models import Fact, Link, RecalledFact, Source

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FACT = Fact(
    id="f-1", scope="platform", kind="fact", content="rain in spring", tags=("weather",),
    confidence=0.5, source=Source(actor="ada"), recorded_at=NOW,
)  # fmt: skip
LINK = Link.model_validate(
    {"id": "l-1", "from": "f-1", "to": "f-2", "type": "related", "recorded_at": NOW, "actor": "a"}
)


@pytest.mark.parametrize("model", [FACT, LINK], ids=["a fact", "a link, which has an alias"])
def test_built_model_is_the_validated_one(model: Fact | Link) -> None:
    built = base_model.construct_unchecked(type(model), dict(model.__dict__))
    assert built == model
    assert built.model_dump_json(by_alias=True) == model.model_dump_json(by_alias=True)
    assert built.model_copy(update={"id": "x"}).id == "x"
    assert list(built.__dict__) == list(type(model).model_fields)


def test_built_model_cannot_be_changed() -> None:
    parts = {**FACT.__dict__, "rank": 1, "score": 2.0, "parts": {"bm25": 2.0}}
    built = base_model.construct_unchecked(RecalledFact, parts)
    with pytest.raises(ValueError, match="frozen"):
        built.rank = 2  # type: ignore[misc]
