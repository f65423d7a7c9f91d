from __future__ import annotations

import json
import logging
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from knowledge_client.models import Extraction
from knowledge_service import logging_config, settings, uuid7
from knowledge_service.domain import capacity
from knowledge_service.domain.run_reports import RunKey, duration_s
from knowledge_service.domain.run_statistics import usefulness
from knowledge_service.errors import Conflict
from knowledge_service.extraction.worker import ExtractionWorker
from knowledge_service.ports import Store
from tests.fakes.clock import START
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import OPERATOR, run_in, run_key


def test_ids_sort_by_the_moment_they_were_made_also_when_the_clock_goes_back() -> None:
    maker = uuid7.Uuid7Generator()
    created = [maker.generate(START) for _ in range(100)] + [
        maker.generate(START.replace(year=2020))
    ]
    assert created == sorted(set(created))
    assert created[0][14] == "7"


def test_usefulness_is_drawn_to_the_prior_while_little_is_counted() -> None:
    assert usefulness(0, 0) is None
    assert usefulness(1, 0) == pytest.approx(0.6)
    assert usefulness(9, 1) == pytest.approx(0.9)


def test_run_without_both_times_has_no_duration() -> None:
    store = MemoryStore()
    assert duration_s(store.put_run("r", run_in(started_at=START), actor=OPERATOR)) is None


class TestSettings:
    def test_come_from_the_command_line_first(self) -> None:
        parse = settings.parse(
            ["serve", "--db", "/data/k.db", "--port", "9000", "--auth", "none"],
            {"KAIS_PORT": "1", "KAIS_ADMIN_SUBJECTS": "a, b,", "KUBERNETES_SERVICE_HOST": "::1"},
        )
        assert (parse.db, parse.port, parse.host) == (Path("/data/k.db"), 9000, "127.0.0.1")
        assert parse.admin_subjects == {"a", "b"}
        assert parse.kube_api == "https://[::1]:443"

    @pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.com", "::"])  # noqa: S104
    def test_no_authentication_beyond_loopback_is_refused(
        self, host: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit):
            settings.parse(["serve", "--host", host, "--auth", "none"], {})
        assert f"it is refused on {host}; listen on 127.0.0.1" in capsys.readouterr().err

    @pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
    def test_loopback_may_be_open(self, host: str) -> None:
        assert settings.parse(["serve", "--host", host, "--auth", "none"], {}).host == host


class TestWorker:
    def accepted(self) -> MemoryStore:
        store = MemoryStore()
        store.put_run("r", run_in(outcome="Failed"), actor=OPERATOR)
        store.accept_extraction(run_key("r"), 7, actor=OPERATOR)
        return store

    def finish(self, worker: ExtractionWorker, event: threading.Event) -> None:
        worker.start()
        assert event.wait(10)
        worker.stop()

    def test_takes_up_what_an_earlier_process_left(self) -> None:
        store, completed_event, states = self.accepted(), threading.Event(), list[str]()
        store.begin_extraction(run_key("r"))
        worker = ExtractionWorker(
            store,
            on_run=lambda *_: None,
            on_end=lambda state, _: (states.append(state), completed_event.set()),
        )
        self.finish(worker, completed_event)
        assert states == ["done"]
        extraction = store.extraction(run_key("r"))
        assert extraction is not None
        assert (extraction.attempts, extraction.reason) == (
            2,
            "the run left no episodes, so its record proves nothing",
        )

    def test_gives_up_loudly_after_three_attempts(self, caplog: pytest.LogCaptureFixture) -> None:
        store, result = self.accepted(), threading.Event()

        def fail(store: Store, key: RunKey) -> Extraction:
            store.begin_extraction(key)
            raise Conflict("the record is odd")

        worker = ExtractionWorker(
            store, on_run=lambda *_: None, on_end=lambda _, __: result.set(), run=fail, retry_s=0.01
        )
        self.finish(worker, result)
        matching_extraction = store.extraction(run_key("r"))
        assert matching_extraction is not None
        assert (matching_extraction.state, matching_extraction.attempts) == ("failed", 3)
        assert matching_extraction.reason == "the record is odd"
        assert [r.message for r in caplog.records if r.levelno == logging.WARNING] == [
            "extraction failed"
        ] * 3

    def test_waits_for_a_store_that_is_away(self) -> None:
        store, finished = self.accepted(), threading.Event()
        store.problem = "away"
        worker = ExtractionWorker(
            store, on_run=lambda *_: None, on_end=lambda _, __: finished.set()
        )
        worker.start()
        store.problem = None
        worker.wake()
        assert finished.wait(10)
        worker.stop()


def test_logs_are_one_json_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    initial_handlers = logging.getLogger().handlers[:]
    try:
        logging_config.configure("INFO")
        logging.getLogger("x").info("said %s", "so", extra={"fields": {"route": "/v1"}})
        line = json.loads(capsys.readouterr().err)
    finally:
        logging.getLogger().handlers = initial_handlers
    assert (line["message"], line["route"], line["level"]) == ("said so", "/v1", "info")


class TestWrongSettings:
    @pytest.mark.parametrize(
        ("environment", "message"),
        [
            ({"KAIS_PORT": "abc"}, "--port (KAIS_PORT): 'abc' is not a port; use 1 to 65535"),
            ({"KAIS_PORT": "99999"}, "--port (KAIS_PORT): '99999' is not a port; use 1 to 65535"),
            (
                {"KAIS_AUTH": "open"},
                "KAIS_AUTH: 'open' is unknown; give kubernetes or token or none",
            ),
            ({"KAIS_AUTH": "token"}, "--auth token needs --token-file (KAIS_TOKEN_FILE)"),
            (
                {"KAIS_READ_SECONDS": "soon"},
                "KAIS_READ_SECONDS: 'soon' is not a number of seconds; use 1 to 3600",
            ),
            ({"KAIS_READ_SECONDS": "0"}, "KAIS_READ_SECONDS: '0' is not a number of seconds"),
            (
                {"KAIS_RECEIPT_DAYS": "-1"},
                "KAIS_RECEIPT_DAYS: '-1' is not a number of days; use 1 to 36500",
            ),
            (
                {"KAIS_METRICS_PORT": "high"},
                "KAIS_METRICS_PORT: 'high' is not a port; use 1 to 65535",
            ),
            (
                {"KAIS_UNDECLARED_FACTS": "many"},
                "KAIS_UNDECLARED_FACTS: 'many' is not a number of facts; use 1 to 100000000",
            ),
            ({"KAIS_UNDECLARED_FACTS": "0"}, "KAIS_UNDECLARED_FACTS: '0' is not a number of facts"),
            (
                {"KAIS_RECALL_CONVERSATIONS": "no"},
                "KAIS_RECALL_CONVERSATIONS: 'no' is unknown; give true or false",
            ),
            ({"KAIS_MCP": "on"}, "KAIS_MCP: 'on' is unknown; give true or false"),
            (
                {"KAIS_MCP": "true", "KAIS_MCP_URL": "kais.example"},
                "KAIS_MCP_URL: 'kais.example' is not an address; begin with http:// or https://",
            ),
            ({"KAIS_LOG_LEVEL": "chatty"}, "KAIS_LOG_LEVEL: 'chatty' is unknown; give DEBUG, INFO"),
        ],
    )
    def test_of_the_environment_are_told_as_those_of_the_command_line(
        self, environment: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            settings.parse(["serve"], environment)
        assert ended.value.code == 2
        assert message in capsys.readouterr().err

    def test_read_and_receipts_last_as_long_as_the_environment_says(self) -> None:
        fields = {
            "KAIS_READ_SECONDS": "30", "KAIS_RECEIPT_DAYS": "7", "KAIS_UNDECLARED_FACTS": "9",
        }  # fmt: skip
        parse = settings.parse(["serve"], fields)
        assert isinstance(parse, settings.Settings)
        assert (parse.reads_within, parse.receipts_for) == (
            timedelta(seconds=30),
            timedelta(days=7),
        )
        assert parse.undeclared_facts == 9

    def test_scope_without_a_declaration_has_the_bound_of_the_store(self) -> None:
        matching_settings = settings.parse(["serve"], {})
        assert isinstance(matching_settings, settings.Settings)
        assert matching_settings.undeclared_facts == capacity.UNDECLARED_FACTS

    @pytest.mark.parametrize(
        ("environment", "is_on"),
        [
            pytest.param({}, True, id="conversations are on by default"),
            pytest.param({"KAIS_RECALL_CONVERSATIONS": "true"}, True, id="true is on"),
            pytest.param({"KAIS_RECALL_CONVERSATIONS": "false"}, False, id="false is off"),
            pytest.param({"KAIS_RECALL_CONVERSATIONS": ""}, True, id="empty counts as unset"),
        ],
    )
    def test_recall_uses_conversations_unless_switched_off(
        self, environment: dict[str, str], is_on: bool
    ) -> None:
        parsed = settings.parse(["serve"], environment)
        assert isinstance(parsed, settings.Settings)
        assert parsed.recall_conversations is is_on

    def test_mcp_is_off_unless_switched_on(self) -> None:
        environment = {"KAIS_MCP_ORIGINS": "https://a.example, https://b.example,"}
        off, on = settings.parse(["serve"], environment), settings.parse(["serve", "--mcp"], {})
        both = settings.parse(["serve"], {"KAIS_MCP": "true", **environment})
        assert isinstance(off, settings.Settings)
        assert isinstance(on, settings.Settings)
        assert isinstance(both, settings.Settings)
        assert (off.mcp, on.mcp) == (None, settings.McpSettings())
        origins = ("https://a.example", "https://b.example")
        assert both.mcp == settings.McpSettings(origins=origins)

    def test_empty_variable_is_one_that_is_not_set(self) -> None:
        names = (
            "KAIS_DB",
            "KAIS_HOST",
            "KAIS_PORT",
            "KAIS_AUTH",
            "KAIS_LOG_LEVEL",
            "KAIS_READ_SECONDS",
        )
        assert settings.parse(["serve"], dict.fromkeys(names, "")) == settings.parse(["serve"], {})
