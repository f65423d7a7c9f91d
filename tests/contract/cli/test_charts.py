"""Structural tension charts at the command line and as tools of MCP, at a real service."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment


def test_a_chart_is_kept_at_the_command_line(shell):
    out = shell(
        "charts", "create", "Five songs", "--reality", "I own no guitar.", "--due", "2040-05-01",
        "--step", "Buy a guitar", "--step", "Practise", "--scope", shell.realm, "-o", "json",
    )  # fmt: skip
    chart = json.loads(out)
    first, second = (step["name"] for step in chart["actionSteps"])
    shell("charts", "progress", second, "I know two chords.", "--reality")
    shown = shell("charts", "complete", first)
    assert "current reality: Completed: Buy a guitar" in shown
    assert f"{chart['id']}  assimilation, 50% complete, due 2040-05-01" in shown
    below = json.loads(
        shell("charts", "telescope", second, "--reality", "No time.", "--step", "x", "-o", "json")
    )
    assert (below["parentChart"], below["level"]) == (chart["id"], 1)
    assert below["id"] in shell("charts", "show", chart["id"])
    shell("charts", "update", chart["id"], "--outcome", "Fix the noise", "--phase", "germination")
    assert shell.terminal.err.startswith("advice: The desired outcome speaks of a problem (fix).")
    shell("charts", "add", chart["id"], "Sing", "--due", "2020-01-01")
    assert shell("charts", "due", "-o", "name", "--scope", shell.realm) == f"{chart['id']}\n"
    shell("charts", "remove", chart["id"], f"{chart['id']}_action_3")
    assert shell("charts", "due", "--scope", shell.realm) == ""
    assert shell.terminal.err == "no charts match\n"
    listed = shell("charts", "list", "-o", "name", "--scope", shell.realm).split()
    assert sorted(listed) == sorted([below["id"], chart["id"]])
    shell("charts", "complete", first, status=1)
    assert f"{first!r} is complete already" in shell.terminal.err
    shell("charts", "update", chart["id"], "--phase", "late", status=2)
    recalled = shell("recall", "who owns a guitar?", "--scope", shell.realm)
    assert "I own no guitar." in recalled


def test_charts_are_due_within_at_most_100_years(shell):
    shell("charts", "due", "--within", "36500", "--scope", shell.realm)
    for days in ("36501", "99999999", "99999999999999"):
        shell("charts", "due", "--within", days, status=2)
        assert "--within" in shell.terminal.err
        assert "36500" in shell.terminal.err


async def test_agents_find_the_ten_tools_that_they_know(service, tmp_path):
    path = tmp_path / "charts.jsonl"
    program = StdioServerParameters(
        command=str(Path(sys.executable).parent / "kais"),
        args=["mcp", "-n", "charted", "--tools", "charts", "--memory-path", str(path)],
        env={**get_default_environment(), "KAIS_KNOWLEDGE_URL": service},
    )
    async with Client(program) as client:

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            assert result.structured_content["untrusted"] is True
            return result.structured_content

        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "create_structural_tension_chart", "telescope_action_step", "mark_action_complete",
            "get_chart_progress", "list_active_charts", "update_action_progress",
            "update_current_reality", "add_action_step", "remove_action_step",
            "update_desired_outcome",
        ]  # fmt: skip
        made = await call(
            "create_structural_tension_chart", desiredOutcome="Five songs",
            currentReality="I own no guitar.", dueDate="2030-05-01", actionSteps=["Buy a guitar"],
        )  # fmt: skip
        chart = made["chart"]
        step = chart["action_steps"][0]["name"]
        await call("update_action_progress", actionStepName=step,
                   progressObservation="I compared three.", updateCurrentReality=True)  # fmt: skip
        await call("update_current_reality", chartId=chart["id"], newObservations=["I have time."])
        await call("update_desired_outcome", chartId=chart["id"], newDesiredOutcome="Ten songs")
        added = await call(
            "add_action_step", parentChartId=chart["id"], actionStepTitle="Find a teacher",
            currentReality="I know none.",
        )  # fmt: skip
        assert added["chart"]["parent_chart"] == chart["id"]
        below = await call("telescope_action_step", actionStepName=step,
                           newCurrentReality="I have 200 euros.")  # fmt: skip
        assert below["chart"]["desired_outcome"] == "Buy a guitar"
        await call("remove_action_step", parentChartId=chart["id"],
                   actionStepName=added["chart"]["parent_step"])  # fmt: skip
        done = await call("mark_action_complete", actionStepName=step)
        assert done["chart"]["completed"] is True
        progress = (await call("get_chart_progress", chartId=chart["id"]))["chart"]
        assert progress["current_reality"] == [
            "I own no guitar.", "I compared three.", "I have time.", "Completed: Buy a guitar",
            "Completed: Ten songs",
        ]  # fmt: skip
        active = (await call("list_active_charts"))["charts"]
        own = [each["id"] for each in active if each["scope"] == "realm:charted"]
        assert own == [below["chart"]["id"]]
        again = await client.call_tool("mark_action_complete", {"actionStepName": step})
        assert again.is_error
        assert again.meta["kais.io/error"]["code"] == "conflict"
    names = [json.loads(line).get("name") for line in path.read_text().splitlines()]
    assert chart["name"] in names


def create_chart(shell, outcome, *steps):
    options = [option for step in steps for option in ("--step", step)]
    out = shell(
        "charts", "create", outcome, "--reality", "None yet.", "--due", "2040-05-01",
        *options, "--scope", shell.realm, "-o", "json",
    )  # fmt: skip
    return json.loads(out)


def test_completed_charts_move_to_a_file_and_come_back(shell, tmp_path):
    done = create_chart(shell, "Five songs", "Practise")
    step = done["actionSteps"][0]["name"]
    below = json.loads(
        shell("charts", "telescope", step, "--reality", "No time.", "--step", "x", "-o", "json")
    )
    shell("charts", "complete", below["actionSteps"][0]["name"])
    active = create_chart(shell, "A garden", "Dig", "Sow")
    dig = active["actionSteps"][0]["name"]
    dug = json.loads(
        shell("charts", "telescope", dig, "--reality", "No spade.", "--step", "y", "-o", "json")
    )
    shell("charts", "complete", dug["actionSteps"][0]["name"])
    shell("graph", "create", "Ada", "--type", "person", "--scope", shell.realm)
    shell("graph", "relate", "Ada", "sings", done["name"])
    before = shell("charts", "show", done["id"])
    file = tmp_path / "archive.jsonl"
    shell("charts", "archive", "--to", str(file), "--scope", shell.realm)
    assert shell.terminal.err == f"2 charts with 8 entities moved to {file}\n"
    listed = shell("charts", "list", "--completed", "-o", "name", "--scope", shell.realm).split()
    assert sorted(listed) == sorted([active["id"], dug["id"]])
    shell("charts", "show", done["id"], status=1)
    shell("graph", "import", "--from", str(file), "--scope", shell.realm)
    assert shell("charts", "show", done["id"]) == before
    opened = json.loads(shell("graph", "open", "Ada", done["name"], "-o", "json"))
    assert [each["relationType"] for each in opened["relations"]] == ["sings"]


def test_an_archive_overwrites_nothing_and_deletes_nothing_without_a_file(shell, tmp_path):
    shell("charts", "archive", "--to", str(tmp_path / "none"), "--scope", shell.realm, status=1)
    assert shell.terminal.err == "error: no completed chart to archive\n"
    assert not (tmp_path / "none").exists()
    chart = create_chart(shell, "Five songs", "Practise")
    shell("charts", "complete", chart["actionSteps"][0]["name"])
    file = tmp_path / "memory.jsonl"
    file.write_text("mine")
    for target, reason in ((file, "File exists"), (tmp_path / "x" / "y", "No such file")):
        shell("charts", "archive", "--to", str(target), "--scope", shell.realm, status=2)
        assert reason in shell.terminal.err
    assert file.read_text() == "mine"
    shell("charts", "show", chart["id"])
