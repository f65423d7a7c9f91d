"""What a link may hold, whoever makes it."""

from __future__ import annotations

import math

import pytest

from knowledge_client.models import LinkIn
from knowledge_service.errors import InvalidBody
from knowledge_service.use_cases import links


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_data_with_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    with pytest.raises(InvalidBody) as refusal:
        links.validate_link(LinkIn(from_="a", to="b", data={"a": [number]}))
    assert [violation.path for violation in refusal.value.violations] == ["data"]
