from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from knowledge_service.errors import StartupError
from knowledge_service.extraction import job, settings

MODELS = "KAIS_EXTRACTION_MODELS"


def test_no_variable_allows_no_model() -> None:
    assert settings.read({}) == settings.ExtractionSettings()


def test_model_has_its_name_unless_the_endpoint_calls_it_otherwise() -> None:
    value = '{"small": {"url": "https://models/v1/", "keyFile": "/key", "input": "0.25"}}'
    endpoint = settings.read({MODELS: value}).models["small"]
    assert endpoint == settings.ModelEndpoint(
        name="small",
        url="https://models/v1",
        api="openai",
        model="small",
        key_file=Path("/key"),
        input_price=Decimal("0.25"),
    )


@pytest.mark.parametrize(("field", "is_verifying"), [("", True), (', "verify": false', False)])
def test_model_verifies_its_statements_unless_the_settings_say_otherwise(
    field: str, *, is_verifying: bool
) -> None:
    value = '{"small": {"url": "https://models/v1"' + field + "}}"
    assert settings.read({MODELS: value}).models["small"].is_verifying is is_verifying


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "AttributeError"),
        ('{"m": {}}', "KeyError('url')"),
        ('{"m": {"url": "ftp://x"}}', "m: url is no http(s) address"),
        ('{"m": {"url": "http://x", "api": "other"}}', "m: api must be openai or anthropic"),
        ('{"m": {"url": "http://x", "key": "k"}}', "m: unknown field key"),
        ('{"m": {"url": "http://x", "input": "-1"}}', "m: a price is negative or infinite"),
        ('{"m": {"url": "http://x", "maxTokens": 0}}', "m: maxTokens must be 1 to 100000"),
        ('{"m": {"url": "http://x", "verify": "no"}}', "m: verify must be true or false"),
    ],
)
def test_invalid_models_stop_the_start_and_the_message_shows_the_form(
    value: str, problem: str
) -> None:
    with pytest.raises(StartupError) as caught:
        settings.read({MODELS: value})
    assert problem in str(caught.value)
    assert 'it must be JSON such as {"small": {"url"' in str(caught.value)


@pytest.mark.parametrize("value", ["much", "-1", "NaN"])
def test_budget_must_be_an_amount(value: str) -> None:
    with pytest.raises(StartupError, match=r"KAIS_EXTRACTION_BUDGET is .*; it must be"):
        settings.read({"KAIS_EXTRACTION_BUDGET": value})


def test_retries_wait_longer_each_time_up_to_an_hour_and_end_after_a_day() -> None:
    delays = [job.retry_delay(attempts) for attempts in range(1, 40)]
    assert delays[:3] == [timedelta(seconds=s) for s in (30, 60, 120)]
    waits = [delay for delay in delays if delay is not None]
    assert max(waits) == timedelta(hours=1)
    assert timedelta(hours=24) <= sum(waits, timedelta()) < timedelta(hours=25)
    assert delays[len(waits) :] == [None] * (len(delays) - len(waits))


def test_retry_after_is_respected_up_to_an_hour() -> None:
    assert job.retry_delay(1, 90) == timedelta(seconds=90)
    assert job.retry_delay(1, 10**9) == timedelta(hours=1)
