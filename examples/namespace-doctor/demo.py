"""The main job on the cluster that is up: break pods, use the doctor twice, see what it learnt.

`make demo` brings up the cluster with kais in it and then runs this. Each command is printed as a
person would type it, and nothing is deleted, so it can be run again: the facts of earlier runs are
then known from the first use on.

Exit status: 0 when the second use names a fact that the first one left, else 1.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kais_cluster import errors, operations
from namespace_doctor import diagnose, pods

HERE = Path(__file__).resolve().parent
NAMESPACE = "demo"
BLUEPRINT = "namespace-doctor"
PATIENCE_S = 180.0  # pods fail within 20 s on an idle machine; the rest is for a busy one


class DemoFailed(Exception):
    """The demonstration cannot go on; the text says why and what to look at."""


@dataclass(frozen=True)
class Use:
    """One use of the Blueprint: its name, how long it took, and the ids in its report."""

    name: str
    seconds: float
    used: frozenset[str]
    remembered: frozenset[str]


def say(text: str = "") -> None:
    """Tell the reader something, at once also through a pipe."""
    print(text, flush=True)


@dataclass(frozen=True)
class Terminal:
    """Runs commands against the cluster: shown to the reader, or quietly."""

    env: Mapping[str, str]
    programs: Mapping[str, str]

    def show(self, *command: str) -> int:
        """Print a command and run it with its output; return its exit status."""
        say(f"$ {shlex.join(command)}")
        done = subprocess.run(self._argv(command), env=self.env, cwd=HERE, check=False)
        return done.returncode

    def must(self, *command: str) -> None:
        """Print and run a command that has to succeed."""
        if status := self.show(*command):
            raise DemoFailed(f"{shlex.join(command)} ended with {status}")

    def read(self, *command: str) -> Any:
        """Run a command without showing it and read the JSON that it prints."""
        done = subprocess.run(
            self._argv(command), env=self.env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoFailed(f"{shlex.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout or "null")

    def _argv(self, command: Sequence[str]) -> list[str]:
        return [self.programs[command[0]], *command[1:]]


def prepare(terminal: Terminal) -> None:
    """Make the namespace, the doctor's rights, the broken pods and the Blueprint."""
    say("# 1. A namespace with pods that are broken on purpose")
    known = ("kubectl", "get", "namespace", NAMESPACE, "-o", "json", "--ignore-not-found")
    if terminal.read(*known) is None:
        terminal.must("kubectl", "create", "namespace", NAMESPACE)
    else:
        say(f"  namespace {NAMESPACE} is there from an earlier run and is used as it is")
    terminal.must("kubectl", "apply", "-n", NAMESPACE, "-f", "rbac.yaml", "-f", "broken-pods.yaml")
    seconds = wait_until(lambda: not well_pods(terminal), what=lambda: well_pods(terminal))
    say(f"  each of them fails for its own reason ({seconds:.0f} s)")
    terminal.show("kubectl", "get", "pods", "-n", NAMESPACE, "-l", "!kais.io/mission")
    say("# 2. The Blueprint, and how knowledge behaves in its scope")
    manifests = ("-f", "blueprint.yaml", "-f", "knowledgescope.yaml")
    terminal.must("kubectl", "apply", "-n", NAMESPACE, *manifests)
    ready = ("--for=condition=Ready", "--timeout=60s", f"blueprint/{BLUEPRINT}")
    terminal.must("kubectl", "wait", "-n", NAMESPACE, *ready)


def well_pods(terminal: Terminal) -> list[str]:
    """Name the broken pods for which the doctor would find no reason yet."""
    label = "app.kubernetes.io/part-of=namespace-doctor-demo"
    found = terminal.read("kubectl", "get", "pods", "-n", NAMESPACE, "-l", label, "-o", "json")
    events = terminal.read("kubectl", "get", "events", "-n", NAMESPACE, "-o", "json")
    return [
        pods.name(pod)
        for pod in found["items"]
        if not diagnose.diagnose_pod(pod, events["items"], now=datetime.now(UTC))
    ]


def wait_until(holds: Callable[[], bool], *, what: Callable[[], object]) -> float:
    """Look each second until something holds; return how many seconds it took."""
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > PATIENCE_S:
            raise DemoFailed(f"waited {PATIENCE_S:.0f} s for nothing; still left: {what()}")
        time.sleep(1)
    return time.monotonic() - started


def use(terminal: Terminal) -> Use:
    """Use the Blueprint as a person does, and read the ids in the report of its mission."""
    before = instances(terminal)
    started = time.monotonic()
    status = terminal.show("kais", "blueprint", "use", BLUEPRINT, "-n", NAMESPACE)
    seconds = time.monotonic() - started
    made = instances(terminal) - before
    if status or len(made) != 1:
        raise DemoFailed(f"the use ended with {status} and made {sorted(made) or 'no instance'}")
    name = made.pop()
    mission = terminal.read("kubectl", "get", "mission", name, "-n", NAMESPACE, "-o", "json")
    result = str(mission["status"].get("result", ""))
    return Use(name, seconds, ids(result, "used_facts"), ids(result, "remembered_facts"))


def instances(terminal: Terminal) -> set[str]:
    """Name the uses that there are."""
    found = terminal.read("kubectl", "get", "blueprintinstances", "-n", NAMESPACE, "-o", "json")
    return {str(item["metadata"]["name"]) for item in found["items"]}


def uncounted(terminal: Terminal) -> int:
    """Count the uses that the Blueprint's status does not show as ended yet (30 s at most)."""
    command = ("kubectl", "get", "blueprint", BLUEPRINT, "-n", NAMESPACE, "-o", "json")
    status = terminal.read(*command).get("status", {})
    ended = sum(status.get(name) or 0 for name in ("succeeded", "failed", "excluded"))
    return max(0, len(instances(terminal)) - int(ended))


def ids(result: str, key: str) -> frozenset[str]:
    """Read a list of fact ids out of the doctor's result; none when it is not its JSON."""
    try:
        tree = json.loads(result)
    except ValueError:
        return frozenset()
    return frozenset(tree.get(key, ()))


def compare(first: Use, second: Use) -> None:
    """Say which facts went from the first use into the second one's report."""
    say("# 5. What went from one use to the next")
    left = first.used | first.remembered
    passed_on = sorted(second.used & left)
    say(
        f"  {first.name}: {first.seconds:.1f} s, named {len(first.used)} facts that it was given"
        f" and remembered {len(first.remembered)}"
    )
    say(
        f"  {second.name}: {second.seconds:.1f} s, named {len(second.used)} facts that it was given"
        f" and remembered {len(second.remembered)}"
    )
    for fact in passed_on:
        origin = "remembered by the first" if fact in first.remembered else "known to both"
        say(f"    {fact}  {origin}")
    for fact in sorted(second.used - left):
        say(f"    {fact}  drawn from the record of an earlier run")
    if not passed_on:
        raise DemoFailed(
            f"{second.name} names no fact of {first.name}; see: kubectl get mission {second.name}"
            f" -n {NAMESPACE} -o yaml"
        )


def run(terminal: Terminal) -> None:
    """Do the whole of it."""
    started = time.monotonic()
    prepare(terminal)
    say("# 3. The first use: nothing is known, unless this ran before")
    first = use(terminal)
    say("# 4. The second use is given what the first one learnt")
    second = use(terminal)
    compare(first, second)
    say("# 6. What is in the namespace now, once the Blueprint has counted both uses")
    wait_until(lambda: uncounted(terminal) == 0, what=lambda: f"{uncounted(terminal)} uncounted")
    terminal.must("kubectl", "get", "bp,bpr,bpi,fm,cl,ms,ksc", "-n", NAMESPACE)
    say(f"# done in {time.monotonic() - started:.0f} s; `make demo-down` removes everything")


def main() -> int:
    """Run the demonstration on the cluster that `kais cluster env` names."""
    try:
        provider = operations.current_cluster()
        programs = {
            "kubectl": str(provider.binaries / "kubectl"),
            "kais": str(Path(sys.executable).with_name("kais")),
        }
        run(Terminal(os.environ | dict(operations.env()), programs))
    except (DemoFailed, errors.ClusterError) as exc:
        say(f"demo: {exc}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
