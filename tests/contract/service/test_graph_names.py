"""Names of entities: each character comes back as it is, or the name is refused with the reason."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

import httpx
import pytest

from knowledge_service.ports import Store
from tests.contract.service.mcp_service import called, read, serving

LEAD = {"Authorization": "Bearer lead", "Content-Type": "application/json"}
ODD = [
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe", "\N{ZERO WIDTH SPACE}", "\ufeffbom", "\uffff",
    "\U0010ffff",
    "a\u0300\u0301" * 40, "\u2028line\u2029", "a\r\nb", "..", "/", "%2e%2e", "%00", "x" * 512,
    "\U0001f409" * 512, "Zo\u00eb",
]  # fmt: skip
WITHIN = [f"within {chr(code)} {code}" for code in range(256)]
ALONE = [chr(code) for code in range(256) if chr(code).strip()]
BLANK = [chr(code) for code in range(256) if not chr(code).strip()]
NAMES = [*WITHIN, *ALONE, *ODD]
PORTIONS = [NAMES[start : start + 50] for start in range(0, len(NAMES), 50)]


async def test_every_character_of_a_name_comes_back_over_the_routes(
    http: httpx.AsyncClient,
) -> None:
    for names in PORTIONS:
        entities = [{"name": each, "entity_type": each, "observations": [each]} for each in names]
        answer = await http.post("/v1/graph/entities", json={"entities": entities}, headers=LEAD)
        assert answer.status_code == 200, answer.text
        opened = await http.post("/v1/graph:open", json={"names": names}, headers=LEAD)
        by_name = {each["name"]: each for each in opened.json()["entities"]}
        assert sorted(by_name) == sorted(names)
        assert all(by_name[each]["observations"] == [each] for each in names)
        assert all(by_name[each]["entity_type"] == each for each in names)


async def test_a_name_is_one_whether_its_accents_are_composed_or_not(
    http: httpx.AsyncClient,
) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Zo\u00eb") for form in ("NFC", "NFD"))
    for name in (decomposed, composed):
        body = {"entities": [{"name": name, "entity_type": "x"}]}
        answer = await http.post("/v1/graph/entities", json=body, headers=LEAD)
        assert answer.status_code == 200
    assert len((await http.get("/v1/graph", headers=LEAD)).json()["entities"]) == 1
    for name in (composed, decomposed):
        opened = await http.post("/v1/graph:open", json={"names": [name]}, headers=LEAD)
        assert len(opened.json()["entities"]) == 1


async def test_every_character_of_a_name_comes_back_through_mcp(store: Store) -> None:
    async with serving(store) as service, service.mcp("lead", path="/mcp/graph") as lead:
        for names in PORTIONS:
            entities = [{"name": each, "entityType": each, "observations": []} for each in names]
            await called(lead, "create_entities", entities=entities)
            opened = await called(lead, "open_nodes", names=names)
            assert sorted(each["name"] for each in opened["entities"]) == sorted(names)
        for name in (*ODD, *ALONE[:32]):
            content = await read(lead, f"kais://entities/{quote(name, safe='')}")
            assert content["entity"]["name"] == name


@pytest.mark.parametrize("name", [*BLANK, "", "x" * 513, "\ud800", "a\udfffb"], ids=ascii)
async def test_a_name_that_cannot_be_stored_is_refused(http: httpx.AsyncClient, name: str) -> None:
    text = "".join(f"\\u{ord(each):04x}" for each in name)
    body = f'{{"entities": [{{"name": "{text}", "entity_type": "x"}}]}}'
    answer = await http.post("/v1/graph/entities", content=body, headers=LEAD)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert answer.json()["violations"] or "is not JSON" in answer.json()["detail"]
    graph = await http.get("/v1/graph", headers=LEAD)
    assert graph.json()["entities"] == []


@pytest.mark.parametrize(
    "name", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x80", b"\xf8"], ids=ascii
)
async def test_a_name_that_is_no_utf_8_is_refused(http: httpx.AsyncClient, name: bytes) -> None:
    body = b'{"entities": [{"name": "' + name + b'", "entity_type": "x"}]}'
    answer = await http.post("/v1/graph/entities", content=body, headers=LEAD)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-body")
    assert answer.json()["detail"]
