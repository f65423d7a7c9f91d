"""Demo on a running cluster: break pods, run the doctor twice, and show what it learnt.

The second half does the same with an agent, whose model is scripted.

`make demo` brings up the cluster with kais in it and then runs this. Each command is printed as a
person would type it, and nothing is deleted, so it can be run again: the facts of earlier runs are
then known from the first use on.

Exit status: 0 if the second use names a fact that the first one stored, else 1.
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

EXAMPLE_FOLDER = Path(__file__).resolve().parent
NAMESPACE = "demo"
BLUEPRINT = "namespace-doctor"
AGENT_BLUEPRINT = "log-explainer"
FILES = ("networkpolicy.yaml", "rbac.yaml", "broken-pods.yaml")
AGENT_FOLDER = Path("../log-explainer")
PATIENCE_S = 180.0  # pods fail within 20 s on an idle machine; the rest is for a busy one


class DemoFailed(Exception):
    """The demo cannot continue; the message says why and what to check."""


@dataclass(frozen=True)
class Use:
    """One use of the Blueprint: its name, how long it took, and the ids in its report."""

    name: str
    seconds: float
    used_facts: frozenset[str]
    remembered_facts: frozenset[str]


def say(text: str = "") -> None:
    """Print a line and flush it, also for a pipe."""
    print(text, flush=True)


@dataclass(frozen=True)
class Terminal:
    """Runs commands against the cluster: shown to the reader, or quietly."""

    env: Mapping[str, str]
    programs: Mapping[str, str]

    def show(self, *command: str) -> int:
        """Print a command and run it with its output; return its exit status."""
        say(f"$ {shlex.join(command)}")
        completed = subprocess.run(
            self._argv(command), env=self.env, cwd=EXAMPLE_FOLDER, check=False
        )
        return completed.returncode

    def run_checked(self, *command: str) -> None:
        """Print and run a command that has to succeed."""
        if status := self.show(*command):
            raise DemoFailed(f"{shlex.join(command)} ended with {status}")

    def read(self, *command: str) -> Any:
        """Run a command without showing it and read the JSON that it prints."""
        completed = subprocess.run(
            self._argv(command), env=self.env, capture_output=True, text=True, check=False
        )
        if completed.returncode:
            raise DemoFailed(f"{shlex.join(command)}: {completed.stderr.strip()}")
        return json.loads(completed.stdout or "null")

    def _argv(self, command: Sequence[str]) -> list[str]:
        return [self.programs[command[0]], *command[1:]]


def prepare(terminal: Terminal) -> None:
    """Create the namespace, the doctor's Role, the broken pods and the Blueprint."""
    say("# 1. A namespace with pods that are broken on purpose")
    namespace_query = ("kubectl", "get", "namespace", NAMESPACE, "-o", "json", "--ignore-not-found")
    if terminal.read(*namespace_query) is None:
        terminal.run_checked("kubectl", "create", "namespace", NAMESPACE)
    else:
        say(f"  namespace {NAMESPACE} is there from an earlier run and is used as it is")
    files = [part for name in FILES for part in ("-f", name)]
    terminal.run_checked("kubectl", "apply", "-n", NAMESPACE, *files)
    seconds = wait_until(
        lambda: not unexplained_pods(terminal),
        describe_remaining=lambda: unexplained_pods(terminal),
    )
    say(f"  each of them fails for its own reason ({seconds:.0f} s)")
    terminal.show("kubectl", "get", "pods", "-n", NAMESPACE, "-l", "!kais.io/mission")
    say("# 2. The Blueprint, and the settings of its knowledge")
    manifests = ("-f", "blueprint.yaml", "-f", "knowledgescope.yaml")
    terminal.run_checked("kubectl", "apply", "-n", NAMESPACE, *manifests)
    ready = ("--for=condition=Ready", "--timeout=60s", f"blueprint/{BLUEPRINT}")
    terminal.run_checked("kubectl", "wait", "-n", NAMESPACE, *ready)


def unexplained_pods(terminal: Terminal) -> list[str]:
    """Return the broken pods that the doctor could not diagnose yet."""
    label = "app.kubernetes.io/part-of=namespace-doctor-demo"
    pod_list = terminal.read("kubectl", "get", "pods", "-n", NAMESPACE, "-l", label, "-o", "json")
    events = terminal.read("kubectl", "get", "events", "-n", NAMESPACE, "-o", "json")
    return [
        pods.name(pod)
        for pod in pod_list["items"]
        if not diagnose.diagnose_pod(pod, events["items"], now=datetime.now(UTC))
    ]


def wait_until(holds: Callable[[], bool], *, describe_remaining: Callable[[], object]) -> float:
    """Poll each second until a condition holds; return how many seconds it took."""
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > PATIENCE_S:
            raise DemoFailed(
                f"waited {PATIENCE_S:.0f} s in vain; still missing: {describe_remaining()}"
            )
        time.sleep(1)
    return time.monotonic() - started


def use(terminal: Terminal) -> Use:
    """Use the Blueprint as a person does, and read the ids in the report of its mission."""
    earlier_instances = instance_names(terminal)
    started = time.monotonic()
    status = terminal.show("kais", "blueprint", "use", BLUEPRINT, "-n", NAMESPACE)
    seconds = time.monotonic() - started
    new_instances = instance_names(terminal) - earlier_instances
    if status or len(new_instances) != 1:
        raise DemoFailed(
            f"the use ended with {status} and made {sorted(new_instances) or 'no instance'}"
        )
    name = new_instances.pop()
    mission = terminal.read("kubectl", "get", "mission", name, "-n", NAMESPACE, "-o", "json")
    result = str(mission["status"].get("result", ""))
    return Use(name, seconds, ids(result, "used_facts"), ids(result, "remembered_facts"))


def instance_names(terminal: Terminal) -> set[str]:
    """Return the names of all instances."""
    instance_list = terminal.read(
        "kubectl", "get", "blueprintinstances", "-n", NAMESPACE, "-o", "json"
    )
    return {str(item["metadata"]["name"]) for item in instance_list["items"]}


def uncounted(terminal: Terminal) -> int:
    """Count the uses that the Blueprint's status does not yet count as ended."""
    command = ("kubectl", "get", "blueprint", BLUEPRINT, "-n", NAMESPACE, "-o", "json")
    status = terminal.read(*command).get("status", {})
    ended = sum(status.get(name) or 0 for name in ("succeeded", "failed", "excluded"))
    return max(0, len(instance_names(terminal)) - int(ended))


def ids(result: str, key: str) -> frozenset[str]:
    """Read a list of fact ids from the doctor's result; empty if the result is not JSON."""
    try:
        tree = json.loads(result)
    except ValueError:
        return frozenset()
    return frozenset(tree.get(key, ()))


def compare(first: Use, second: Use) -> None:
    """Print the facts of the first use that the report of the second one contains."""
    say("# 5. What the second run got from the first")
    first_facts = first.used_facts | first.remembered_facts
    passed_on = sorted(second.used_facts & first_facts)
    for demo_use in (first, second):
        say(
            f"  {demo_use.name}: {demo_use.seconds:.1f} s, used {len(demo_use.used_facts)}"
            f" recalled facts, remembered {len(demo_use.remembered_facts)} new ones"
        )
    for fact in passed_on:
        origin = (
            "remembered by the first run"
            if fact in first.remembered_facts
            else "known to both runs"
        )
        say(f"    {fact}  {origin}")
    for fact in sorted(second.used_facts - first_facts):
        say(f"    {fact}  extracted from the record of an earlier run")
    if not passed_on:
        raise DemoFailed(
            f"{second.name} names no fact of {first.name}; see: kubectl get mission {second.name}"
            f" -n {NAMESPACE} -o yaml"
        )


def prepare_agent(terminal: Terminal) -> None:
    """Create the Blueprint with a mind, its scripted model and the key of this model."""
    say("# 7. An agent with a scripted model, which answers by the same rules in each run. This")
    say("#    shows that the parts work together. It does not show that knowledge helps a model.")
    manifests = [str(AGENT_FOLDER / name) for name in ("blueprint.yaml", "scripted-model.yaml")]
    files = [part for manifest in manifests for part in ("-f", manifest)]
    terminal.run_checked("kubectl", "apply", "-n", NAMESPACE, *files)
    secret = ("secret", "kais-openai")
    secret_query = ("kubectl", "get", *secret, "-n", NAMESPACE, "-o", "json", "--ignore-not-found")
    if terminal.read(*secret_query) is None:
        key = "--from-literal=apiKey=scripted-key"
        terminal.run_checked(
            "kubectl", "create", "secret", "generic", secret[1], "-n", NAMESPACE, key
        )
    for condition in (f"blueprint/{AGENT_BLUEPRINT}", "pod/models"):
        ready = ("--for=condition=Ready", "--timeout=90s", condition)
        terminal.run_checked("kubectl", "wait", "-n", NAMESPACE, *ready)


def turns_of_agent(terminal: Terminal) -> int:
    """Use the Blueprint with a mind, and read how many turns its model took."""
    earlier_instances = instance_names(terminal)
    if status := terminal.show("kais", "blueprint", "use", AGENT_BLUEPRINT, "-n", NAMESPACE):
        raise DemoFailed(f"the agent's run ended with {status}")
    (name,) = instance_names(terminal) - earlier_instances
    mission = terminal.read("kubectl", "get", "mission", name, "-n", NAMESPACE, "-o", "json")
    return int(mission["status"]["turns"])


def compare_turns(first: int, second: int) -> None:
    """Print how many turns the second run of the agent saved."""
    if first > second:
        say(f"  the first run took {first} turns; with its fact, the second took {second}")
    elif first == second:
        say(f"  both runs took {first} turns: the fact was known from an earlier demo")
    else:
        raise DemoFailed(f"the second run took {second} turns, more than the {first} of the first")


def run(terminal: Terminal) -> None:
    """Do the whole of it."""
    started = time.monotonic()
    prepare(terminal)
    say("# 3. The first run knows nothing, unless the demo ran before")
    first = use(terminal)
    say("# 4. The second run starts from what the first one learnt")
    second = use(terminal)
    compare(first, second)
    say("# 6. The objects in the namespace, as soon as the Blueprint has counted both runs")
    wait_until(
        lambda: uncounted(terminal) == 0,
        describe_remaining=lambda: f"{uncounted(terminal)} uncounted",
    )
    terminal.run_checked("kubectl", "get", "bp,bpr,bpi,fm,cl,ms,ksc", "-n", NAMESPACE)
    prepare_agent(terminal)
    say("# 8. Two runs of the agent; the second one gets the fact that the first remembered")
    compare_turns(turns_of_agent(terminal), turns_of_agent(terminal))
    terminal.run_checked("kubectl", "get", "missions", "-n", NAMESPACE)
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
