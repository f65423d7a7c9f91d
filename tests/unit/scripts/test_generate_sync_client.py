"""The sync client is what the generator makes of the async one."""

import pytest

from scripts import generate_sync_client

_DOCSTRING = next(iter(generate_sync_client._DOCSTRINGS))
_SOURCE = f'''"""{_DOCSTRING}"""

import asyncio


class AsyncKnowledgeClient:
    """The knowledge service for an event loop."""

    async def wait(self) -> None:
        """Wait; `await` in a text stays."""
        async with self.lock:
            await asyncio.sleep(1)
'''


def test_the_committed_sync_client_is_what_the_generator_writes():
    committed = generate_sync_client.TARGET.read_text()

    assert generate_sync_client.generate(generate_sync_client.SOURCE.read_text()) == committed, (
        "knowledge_client/sync_client.py is stale; run: make client"
    )


def test_async_and_await_vanish_from_code_and_stay_in_texts():
    sync = generate_sync_client.generate(_SOURCE)

    assert "class KnowledgeClient:" in sync
    assert "    def wait(self) -> None:" in sync
    assert '"""Wait; `await` in a text stays."""' in sync
    assert "        with self.lock:\n            time.sleep(1)\n" in sync


def test_an_async_name_without_a_sync_one_is_refused():
    source = _SOURCE.replace("asyncio.sleep", "httpx.AsyncLimiter")

    with pytest.raises(ValueError, match="no sync name for AsyncLimiter; add it to _NAMES"):
        generate_sync_client.generate(source)


def test_a_docstring_that_is_gone_is_refused():
    with pytest.raises(ValueError, match="the async client has no docstring with 'The knowledge"):
        generate_sync_client.generate(_SOURCE.replace("for an event loop", "for loops"))


def test_the_check_fails_on_a_stale_file_and_writes_nothing(tmp_path, monkeypatch, capsys):
    stale = tmp_path / "sync_client.py"
    stale.write_text("edited by hand\n")
    monkeypatch.setattr(generate_sync_client, "ROOT", tmp_path)
    monkeypatch.setattr(generate_sync_client, "TARGET", stale)

    assert generate_sync_client.main(["--check"]) == 1

    assert capsys.readouterr().err == "sync_client.py is stale; run: make client\n"
    assert stale.read_text() == "edited by hand\n"
