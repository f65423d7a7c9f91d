"""Minds under load, and killed at random: what is lost, what is late, what it costs."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench import mind_latency, mind_team
from bench.figures import quantile, table
from bench.mind_team import MindTeam, MissionEnd

ANSWER = """
rules:
  - name: answer
    reply: {text: "The work is done."}
"""
WORK = """
rules:
  - name: look
    when: {turn: 1}
    reply: {tool_calls: [{name: list_files, arguments: {path: shared}}], chunk_delay_s: 0.1}
  - name: answer
    when: {turn: 2}
    reply: {text: "The work is done, and it took a while to say so.", chunk_delay_s: 0.3}
"""
CELLS, AT_ONCE, KILLED_MISSIONS, SEED = 10, 200, 100, 7


def run() -> str:
    """Return the section of the page."""
    return "## Minds\n\n" + "\n\n".join((mind_latency.run(), load(), killed(KILLED_MISSIONS, SEED)))


def load(missions: int = AT_ONCE, cells: int = CELLS) -> str:
    """Send missions at once, twice, and compare what came of them.

    Raises:
        SystemExit: A mission or an attempt was lost or doubled.
    """
    rows = []
    with mind_team.team(ANSWER, cells=cells) as team:
        for burst in ("first", "second"):
            names = [f"{burst}-{number}" for number in range(missions)]
            begin = time.time()
            with ThreadPoolExecutor(1) as pool:  # it takes 3 s, in which the first ones end
                sent = pool.submit(team.send, names)
                ends = team.wait_for_missions(names, lambda: None, within_s=900)
                sent.result()
            seconds = time.time() - begin
            _require_once(team, ends, _all_ends(team))
            tasks = team.tasks()
            late = [
                end.seen_at - mind_team.finished_at(tasks[_task_of(end)]) for end in ends.values()
            ]
            rows.append(
                [
                    f"{burst} {missions}",
                    f"{seconds:.1f}",
                    *(f"{quantile(late, share):.2f}" for share in (0.5, 0.95)),
                    f"{max(runtime.memory_mib() for runtime in team.runtimes):.0f}",
                    f"{team.operator.memory_mib():.0f}",
                    f"{team.service.memory_mib():.0f}",
                ]
            )
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    head = (
        *("missions at once", "all ended after s", "finished → status p50 s", "p95 s"),
        *("largest cell MiB", "operator MiB", "service MiB"),
    )
    return (
        f"Missions against {cells} scripted Service cells, each with one attempt, one task and one "
        "call of the model:\n\n" + table(head, rows)
    )


def killed(missions: int, seed: int, cells: int = 5) -> str:
    """Kill runtimes, operator and service at random while missions run.

    Each attempt must have one task, each settled call be in the journal with its tokens, and each
    other entry of the journal have a reservation. The cost in the status of a mission must be the
    sum of its calls.

    Raises:
        SystemExit: Missions, tasks, ledgers and the journal of the model server do not agree.
    """
    lots = random.Random(seed)  # noqa: S311 - the same kills for the same seed
    with mind_team.team(WORK, cells=cells, tools=["list_files"]) as team:
        names = [f"work-{number}" for number in range(missions)]
        waiting, most = list(names), max(6, missions // 3)
        next_kill = time.monotonic() + 2

        def step() -> None:
            nonlocal next_kill
            if waiting:
                batch, waiting[:] = waiting[:5], waiting[5:]
                team.send(batch)
            if time.monotonic() < next_kill or sum(p.kills for p in team.programs()) >= most:
                return
            kind = lots.choice(("runtime", "runtime", "operator", "service"))
            program = {
                "runtime": lots.choice(team.runtimes),
                "operator": team.operator,
                "service": team.service,
            }[kind]
            program.kill()
            program.start()
            program.wait()
            next_kill = time.monotonic() + lots.uniform(1, 4)

        ends = team.wait_for_missions(names, step, within_s=1500)
        for program in team.programs():
            program.wait()
        outcomes = Counter(
            f"{end.status['outcome']} in attempt {end.status['attempt']}" for end in ends.values()
        )
        states = Counter(state for calls in team.ledger().values() for state, *_ in calls)
        problems = mind_team.disagreements(team, ends)
        calls = len(team.journal())
    if problems:
        raise SystemExit("\n".join(problems))
    row = (
        sum(program.kills for program in team.runtimes),
        team.operator.kills,
        team.service.kills,
        _listed(outcomes),
        calls,
        _listed(states),
    )
    head = (
        *("runtimes killed", "operator killed", "service killed", "outcomes"),
        *("calls of the model", "calls in the ledgers"),
    )
    return (
        f"{missions} missions of two turns against {cells} cells, seed {seed}, with SIGKILL for "
        "the programs:\n\n" + table(head, [row])
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _all_ends(team: MindTeam) -> dict[str, MissionEnd]:
    return {
        body["metadata"]["name"]: MissionEnd(body["status"], 0) for body in team.items("missions")
    }


def _require_once(
    team: MindTeam, ends: Mapping[str, MissionEnd], all_ends: Mapping[str, MissionEnd]
) -> None:
    odd = [
        f"{name}: {end.status['outcome']} in attempt {end.status['attempt']}"
        for name, end in ends.items()
        if (end.status["outcome"], end.status["attempt"]) != ("Succeeded", 1)
    ]
    asked = _calls_by_mission(team, list(all_ends))
    odd += [f"{name}: {count} calls" for name, count in asked.items() if count != 1]
    odd += mind_team.disagreements(team, all_ends)
    if odd:
        raise SystemExit("\n".join(odd[:20]))


def _calls_by_mission(team: MindTeam, names: Sequence[str]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    for entry in team.journal():
        text = str(entry["request"]["messages"][-1]["content"])
        name = (
            text.partition("the work of &lt;")[2].partition(">")[0]
            or (text.partition("the work of <")[2].partition(">")[0])
        )
        counts[name] = counts.get(name, 0) + 1
    return counts


def _task_of(end: MissionEnd) -> str:
    return mind_team.task_of(end, 1)
