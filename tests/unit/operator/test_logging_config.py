"""How the operator's log looks to who collects it, and to who reads it at a terminal."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from kais_operator import logging_config

FIELDS = {"kind": "Mission", "namespace": "demo", "name": "doctor", "reason": "Acted"}


def record(message: str, **values: Any) -> logging.LogRecord:
    log_record = logging.makeLogRecord(
        {"name": "kais_operator.x", "levelno": logging.INFO, "levelname": "INFO", "msg": message}
    )
    log_record.created = 1767607200.25
    vars(log_record).update(values)
    return log_record


def json_line(log_record: logging.LogRecord) -> dict[str, Any]:
    text = logging_config.JsonFormatter().format(log_record)
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


def test_a_json_line_has_time_level_logger_message_and_fields():
    assert json_line(record("Create, PutRun", fields=FIELDS)) == {
        "at": "2026-01-05T10:00:00.250+00:00",
        "level": "info",
        "logger": "kais_operator.x",
        "message": "Create, PutRun",
        **FIELDS,
    }


def test_arguments_of_a_message_are_filled_in():
    assert json_line(record("port %s", args=(8080,)))["message"] == "port 8080"


def test_a_message_of_many_lines_stays_in_one_json_line():
    assert json_line(record("first\nsecond"))["message"] == "first\nsecond"


def test_a_traceback_is_a_field_of_the_json_line():
    error: dict[str, str] = {}
    try:
        error["lost"]
    except KeyError:
        log_record = record("failed", exc_info=sys.exc_info())
    traceback = json_line(log_record)["error"]
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.endswith("KeyError: 'lost'")


def test_a_text_line_has_the_fields_as_keys_and_values():
    text = logging_config.TextFormatter().format(record("Create,\nPutRun", fields=FIELDS))
    assert text.endswith(
        "INFO kais_operator.x kind=Mission namespace=demo name=doctor reason=Acted"
        " message=Create, PutRun"
    )


def test_a_text_line_without_fields_is_its_message():
    text = logging_config.TextFormatter().format(record("leading as one"))
    assert text.endswith("INFO kais_operator.x leading as one")


def test_the_chosen_format_goes_to_stderr_at_the_chosen_level(capsys, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    logging_config.configure("WARNING", "json")
    logging.getLogger("kais_operator.x").info("not shown")
    logging.getLogger("kais_operator.x").warning("shown")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "shown"


def test_the_cards_of_agents_are_not_logged(capsys, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    logging_config.configure("INFO", "json")
    logging.getLogger("a2a.client.card_resolver").info("Successfully fetched agent card data: {…}")
    assert capsys.readouterr().err == ""
