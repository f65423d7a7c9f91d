"""How the failure of a request to a cell reads in a condition."""

from __future__ import annotations

import httpx
import pytest

from kais_operator.agents import request_failures

URL = "http://lead-0.demo.svc:8080/.well-known/agent-card.json"


def status_error(status: int) -> httpx.HTTPStatusError:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.Response(status, request=httpx.Request("GET", URL)).raise_for_status()
    return caught.value


def test_an_http_status_is_one_line_without_the_link_of_the_library() -> None:
    assert request_failures.describe(status_error(404)) == (
        f"Client error '404 Not Found' for url '{URL}'"
    )


def test_a_message_of_several_lines_keeps_all_of_them_in_one() -> None:
    assert request_failures.describe(ValueError("no card:\n  it is empty\n")) == (
        "no card: it is empty"
    )


def test_an_error_without_a_message_is_its_class() -> None:
    assert request_failures.describe(ValueError("")) == "ValueError"
