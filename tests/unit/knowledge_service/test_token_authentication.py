from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge_service.authentication.tokens import TokenAuthentication
from knowledge_service.errors import IdentityUnavailable, StartupError, Unauthenticated
from tests.fakes.clock import FakeClock
from tests.knowledge_builders import LEAD, TEAM

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of a test
LEAD_ENTRY = {"name": "lead", "type": "agent", "home": LEAD, "token": TOKEN}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put the file there anew, as a mounted Secret is: by another file under the same name."""

    def put(*entries: dict[str, Any], text: str | None = None, mode: int = 0o600) -> Path:
        new = tmp_path / "new"
        new.write_text(json.dumps({"principals": entries}) if text is None else text)
        new.chmod(mode)
        new.replace(tmp_path / "tokens.json")
        return tmp_path / "tokens.json"

    return put


async def test_token_stands_for_the_principal_that_the_file_names(write: Write) -> None:
    grant = {"scope": TEAM, "verbs": ["read", "write"]}
    quota = {"writes_per_minute": 5}
    path = write({**LEAD_ENTRY, "grants": [grant], "quota": quota})
    principal = await TokenAuthentication(path).principal(TOKEN)
    assert (principal.name, principal.type, principal.home) == ("lead", "agent", LEAD)
    assert principal.has_verb("write", TEAM)
    assert principal.quota is not None
    assert principal.quota.writes_per_minute == 5


async def test_hash_of_a_token_does_as_well_as_the_token(write: Write) -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    entry = {"name": "ada", "type": "human", "home": "platform", "token_sha256": digest}
    assert (await TokenAuthentication(write(entry)).principal(TOKEN)).name == "ada"


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x"])
async def test_any_other_token_is_refused(write: Write, token: str | None) -> None:
    with pytest.raises(Unauthenticated, match=r"^unknown token$|^no bearer token"):
        await TokenAuthentication(write(LEAD_ENTRY)).principal(token)


async def test_file_that_changes_is_read_again_within_a_second(write: Write) -> None:
    clock = FakeClock()
    token_authentication = TokenAuthentication(write(LEAD_ENTRY), clock.monotonic)
    write({**LEAD_ENTRY, "token": "another-token-altogether"})
    clock.advance(1.1)
    assert (await token_authentication.principal("another-token-altogether")).name == "lead"
    with pytest.raises(Unauthenticated):
        await token_authentication.principal(TOKEN)


async def test_file_that_went_wrong_lets_nobody_in_until_it_is_mended(write: Write) -> None:
    clock = FakeClock()
    token_authentication = TokenAuthentication(write(LEAD_ENTRY), clock.monotonic)
    path = write(text="{")
    clock.advance(1.1)
    for _ in range(2):
        with pytest.raises(IdentityUnavailable, match="token file cannot be read; its log says"):
            await token_authentication.principal(TOKEN)
        clock.advance(1.1)
    path.unlink()
    with pytest.raises(IdentityUnavailable):
        await token_authentication.principal(TOKEN)
    write(LEAD_ENTRY)
    clock.advance(1.1)
    assert (await token_authentication.principal(TOKEN)).name == "lead"


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o601])
def test_file_that_is_open_to_everybody_is_refused(write: Write, mode: int) -> None:
    path = write(LEAD_ENTRY, mode=mode)
    with pytest.raises(
        StartupError, match=rf"readable by all users .* \(mode {mode:04o}\); chmod 0600"
    ):
        TokenAuthentication(path)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "neither token nor hash": ({"token": None}, "must have one of token and token_sha256"),
    "token and hash": ({"token_sha256": "0" * 64}, "must have one of token and token_sha256"),
    "short token": ({"token": "hunter22"}, "its token must have 16 characters or more"),
    "home that is no scope": ({"home": "team:x"}, r"principals.0 \(lead\): "),
    "type that does not exist": ({"type": "robot"}, "principals.0.type: Input should be"),
    "hash that is none": ({"token": None, "token_sha256": "x"}, "principals.0.token_sha256: "),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED)
def test_entry_that_is_wrong_is_named_without_its_token(
    write: Write, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(StartupError, match=message) as caught:
        TokenAuthentication(write({**LEAD_ENTRY, **fields}))
    assert str(fields.get("token") or TOKEN) not in str(caught.value)


def test_one_token_stands_for_one_principal(write: Write) -> None:
    with pytest.raises(StartupError, match="two principals have one token; give each its own"):
        TokenAuthentication(write(LEAD_ENTRY, {**LEAD_ENTRY, "name": "other"}))


def test_missing_file_and_one_that_is_no_json_are_said(write: Write, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"cannot be read \(No such file or directory\); give"):
        TokenAuthentication(tmp_path / "nowhere")
    with pytest.raises(StartupError, match="is invalid: the file: Invalid JSON") as excinfo:
        TokenAuthentication(write(text=f'{{"principals": [{{"token": "{TOKEN}"'))
    assert TOKEN not in str(excinfo.value)


async def test_principal_may_have_two_tokens_while_one_is_replaced(write: Write) -> None:
    known_token_authentication = TokenAuthentication(
        write(LEAD_ENTRY, {**LEAD_ENTRY, "token": TOKEN + "-new"})
    )
    assert await known_token_authentication.principal(
        TOKEN
    ) == await known_token_authentication.principal(TOKEN + "-new")


def test_two_principals_of_one_name_type_and_home_are_refused(write: Write) -> None:
    grant = {"scope": TEAM, "verbs": ["read", "write"]}
    second = {**LEAD_ENTRY, "token": TOKEN + "-new", "grants": [grant]}
    with pytest.raises(StartupError, match=r"lead of .* is listed twice with different grants"):
        TokenAuthentication(write(LEAD_ENTRY, second))
