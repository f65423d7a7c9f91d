from typing import Any

import pytest

from kais import agent_tools, mcp_servers
from kais.mcp_servers import InvalidServers, ServerReport, ServerState
from kais.resources.cell_template import Tool

URL = "http://cluster:8000/mcp"


def server(**config: Any) -> Tool:
    return Tool.from_dict({"name": "mcp", "config": {"url": URL, **config}})


def named(name: str) -> Tool:
    return Tool.from_dict({"name": name})


def test_the_names_of_servers_and_tools_cannot_collide() -> None:
    one, other = mcp_servers.parse([server(), server(name="dev-tools")])
    assert (one.tool_name("a_b"), other.tool_name("b")) == ("mcp__a_b", "dev-tools__b")
    assert mcp_servers.server_of("dev-tools__b__c") == "dev-tools"
    assert mcp_servers.server_of("read_file") is None


INVALID = {
    "no address": ([named("mcp")], "config.url: Field required"),
    "a local path": ([server(url="/mcp")], "config.url: it must begin with http:// or https://"),
    "a program": ([server(url="file:///bin/sh")], "config.url: it must begin with http://"),
    "credentials in the address": (
        [server(url="http://me:secret@cluster/mcp")],
        "config.url: it contains a user; put credentials into a Secret, and use headersFrom",
    ),
    "an unknown field": ([server(command="npx")], "config.command: Extra inputs are not permitted"),
    "an underscore in the name": ([server(name="a_b")], "config.name: String should match pattern"),
    "no tool at all": ([server(allow=[])], "config.allow: Tuple should have at least 1 item"),
    "a timeout of an hour": ([server(timeout="1h")], "config.timeout: it must be at most 15m"),
    "a cookie": (
        [server(headersFrom=[{"name": "Cookie", "secret": "s", "key": "k"}])],
        "config.headersFrom.0.name: the header Cookie is never sent to a server",
    ),
    "the header of tickets": (
        [server(headersFrom=[{"name": "x-kais-ticket", "secret": "s", "key": "k"}])],
        "the header x-kais-ticket is never sent to a server",
    ),
    "a header twice": (
        [server(headersFrom=[{"name": n, "secret": "s", "key": "k"} for n in ("X-A", "x-a")])],
        "config: headersFrom names a header twice",
    ),
    "two servers with one name": (
        [server(), server()],
        "2 MCP servers have the name mcp; give each its own config.name",
    ),
    "too many servers": (
        [server(name=f"s{number}") for number in range(9)],
        "more than 8 MCP servers",
    ),
    "a tool of no server": (
        [server(), named("cluster__restart")],
        "cluster__restart is a tool of the MCP server cluster, which is not declared",
    ),
    "a tool that is not allowed": (
        [server(allow=["list"]), named("mcp__restart")],
        "mcp__restart is not among the tools in config.allow of mcp",
    ),
}


@pytest.mark.parametrize(("tools", "words"), INVALID.values(), ids=INVALID)
def test_servers_are_refused_with(tools: list[Tool], words: str) -> None:
    with pytest.raises(InvalidServers) as caught:
        mcp_servers.parse(tools)
    assert str(caught.value).startswith("spec.tools: ")
    assert words in str(caught.value)
    assert agent_tools.server_problem(tools) == str(caught.value)


def test_authorization_of_a_secret_may_be_sent() -> None:
    source = {"name": "Authorization", "secret": "cluster", "key": "token"}
    (declared,) = mcp_servers.parse([server(headersFrom=[source])])
    assert declared.headers_from[0].secret == "cluster"  # noqa: S105


def test_no_call_of_a_server_is_repeated() -> None:
    assert not agent_tools.is_repeatable("mcp__recall")
    assert agent_tools.is_repeatable("reconnect_mcp")


def test_reports_are_read_without_trust() -> None:
    known = {"cluster": ServerReport(URL, ServerState.CONNECTED, "fine")}
    assert mcp_servers.parse_annotation(mcp_servers.dump_annotation(known)) == known
    hostile: dict[str, Any] = {
        "cluster": {"url": URL, "state": "connected", "message": "a\x1b[31m\n" + "x" * 10_000},
        "A b": {"url": URL, "state": "connected", "message": ""},
        "other": {"url": URL, "state": "excellent", "message": ""},
        "third": {"url": 3, "state": "connected", "message": ""},
        "fourth": [],
    }
    (report,) = mcp_servers.parse_reports(hostile).values()
    assert report.message.startswith("a [31m xxx")
    assert len(report.message) == 500
    for text in ("{", "[]", "null", "[" * 100_000, None):
        assert mcp_servers.parse_annotation(text) == {}


def test_reports_about_another_address_do_not_count() -> None:
    servers = mcp_servers.parse([server()])
    old = {"mcp": ServerReport("http://old/mcp", ServerState.REFUSED, "no")}
    assert mcp_servers.current(servers, old) == {}
