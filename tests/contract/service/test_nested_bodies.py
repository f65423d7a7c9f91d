"""Bodies nested too deep are mistakes of the caller, told in words."""

from __future__ import annotations

import httpx
import pytest

from tests.contract.service.callers import OPERATOR

HEADERS = {**OPERATOR, "Content-Type": "application/json"}
FIELDS = ("aliases", "tags", "data", "source", "content")


@pytest.mark.parametrize("depth", [150, 1_000, 100_000])
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
async def test_nested_field_of_a_batch_is_refused_or_kept(
    http: httpx.AsyncClient, field: str, depth: int, opened: str, closed: str
) -> None:
    nested = opened * depth + "1" + closed * depth
    body = f'{{"facts": [{{"kind": "fact", "content": "x", "{field}": {nested}}}]}}'
    answer = await http.post("/v1/facts:batch", content=body, headers=HEADERS)
    is_data = field == "data" and depth < 200
    assert answer.status_code == (201 if is_data else 422), answer.text
    assert is_data or answer.json()["code"]
