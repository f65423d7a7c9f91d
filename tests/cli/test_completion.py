"""What TAB completes: commands, options, names in the cluster, parameters and their values."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kais_cli.completion import candidates, shells
from kais_cli.completion.cluster_sources import ClusterSources
from scripts import completion_commands

BIN = Path(sys.executable).parent
OBJECTIVES = [
    "Fix the build",
    "x; touch ran|sh",
    "$(touch ran)",
    "`touch ran`",
    "it's * or ?",
    "~/notes",
    "url:a b",
    "über",
    "",
    "two\nlines",
    "\x1b[2J",
]
PRINTABLE = [value for value in OBJECTIVES if value and value.isprintable()]
BLUEPRINT = {
    "metadata": {"name": "notebook", "namespace": "tutorial"},
    "spec": {
        "description": "Writes notes.",
        "parameters": [
            {"name": "question", "type": "string", "description": "What to ask."},
            {"name": "speed", "type": "enum", "values": ["fast", "slow"]},
            {"name": "isDraft", "type": "boolean"},
            {"name": "notes", "type": "integer", "default": 3},
            {"name": "objective", "type": "enum", "values": OBJECTIVES},
        ],
    },
    "status": {
        "versions": [{"version": 1, "changes": "first"}, {"version": 2, "changes": "image"}]
    },
}


class Sources:
    """A cluster with one Blueprint."""

    def objects(self, plural, namespace):
        return [BLUEPRINT] if plural == "blueprints" and namespace in (None, "tutorial") else []

    def namespaces(self):
        return ["default", "tutorial"]

    def contexts(self):
        return ["demo", "prod"]


def completed(line: str) -> list[str]:
    found = shells.split(line)
    if found is None:
        return []
    return [c.value for c in candidates.complete(found.words, found.incomplete, Sources())]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kais mis", ["mission"]),
        ("kais mission a", ["abort", "approve"]),
        ("kais bp sh", ["show"]),
        ("kais blueprint use ", ["notebook"]),
        ("kais blueprint use no", ["notebook"]),
        ("kais -n tutorial blueprint show ", ["notebook"]),
        ("kais blueprint show -n default ", []),
        ("kais blueprint list -n t", ["tutorial"]),
        ("kais blueprint list --namespace=t", ["--namespace=tutorial"]),
        ("kais blueprint list --context ", ["demo", "prod"]),
        ("kais blueprint use notebook --set q", ["question="]),
        ("kais blueprint use notebook --set speed=", ["speed=fast", "speed=slow"]),
        ("kais blueprint use notebook --set isDraft=t", ["isDraft=true"]),
        ("kais blueprint use notebook --set notes=", ["notes=3"]),
        ("kais blueprint use notebook --set question=x --set s", ["speed="]),
        ("kais blueprint use notebook --set-file q", ["question="]),
        ("kais blueprint use notebook --set-file question=x --set q", []),
        ("kais blueprint use notebook --set-file speed=", []),
        ("kais blueprint rollback notebook --to ", ["1", "2"]),
        ("kais blueprint list -o j", ["json", "jsonpath="]),
        ("kais blueprint list --sel", ["--selector"]),
        ("kais knowledge list --scope n", ["notebook"]),
        ("kais help mission wat", ["watch"]),
        ('kais mission show "open quote', []),
        ('kais blueprint use notebook --set "question=x --set speed=', []),
        ("kais blueprint use notebook --set objective=Fix\\ the\\ ", ["objective=Fix the build"]),
        ("kais blueprint use notebook --set objective='Fix the ", ["objective=Fix the build"]),
        ("kais blueprint use notebook --set objective=two", []),
    ],
)
def test_a_line_is_completed(line, expected):
    assert completed(line) == expected


def test_parameters_are_offered_with_their_descriptions():
    offered = candidates.complete(["blueprint", "use", "notebook", "--set"], "q", Sources())
    assert [c.help for c in offered] == ["What to ask."]


def test_the_tree_of_commands_is_current_make_reference_writes_it_anew():
    assert completion_commands.PATH.read_text("utf-8") == completion_commands.text()


@pytest.fixture
def kubeconfig(tmp_path):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            items = [BLUEPRINT] if "/namespaces/tutorial/blueprints" in self.path else []
            body = json.dumps({"items": items}).encode()
            if "/namespaces/deep/" in self.path:
                body = b'{"items": ' + b"[" * 1500 + b"]" * 1500 + b"}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    path = tmp_path / "config"
    path.write_text(
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c, namespace: tutorial}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{server.server_port}'}}}}]\n"
    )
    yield path
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("namespace", ["../namespaces/tutorial", "a b"])
def test_a_namespace_that_is_typed_stays_one_part_of_the_path(kubeconfig, namespace):
    assert ClusterSources(str(kubeconfig)).objects("blueprints", namespace) == []


def test_objects_that_nest_too_deeply_are_not_offered(kubeconfig):
    assert ClusterSources(str(kubeconfig)).objects("blueprints", "deep") == []


def run(command: list[str], kubeconfig: Path) -> str:
    environment = {
        **os.environ,  # noqa: TID251 - a shell of its own
        "PATH": f"{BIN}:{os.environ['PATH']}",  # noqa: TID251 - as above
        "KUBECONFIG": str(kubeconfig),
    }
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    return process.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kais mission a", ["abort", "approve"]),
        ("kais blueprint use no", ["notebook"]),
        ("kais blueprint use notebook --set speed=f", ["fast"]),
    ],
)
def test_bash_replaces_the_word_at_the_cursor(kubeconfig, line, expected):
    script = (
        "source <(kais completion bash);"
        f' COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; _kais_completion;'
        ' echo "${COMPREPLY[@]}"'
    )
    assert run(["bash", "-c", script], kubeconfig).split() == expected


COMPLETE = """
source <(kais completion bash)
COMP_LINE="kais blueprint use notebook --set objective=$1"; COMP_POINT=${#COMP_LINE}
_kais_completion
"""


def test_bash_passes_each_value_of_a_blueprint_as_one_word(kubeconfig, tmp_path):
    script = f"""{COMPLETE}
    cd "$2"
    for candidate in "${{COMPREPLY[@]}}"; do
      eval "set -- --set objective=$candidate" && printf '%s;%s\\n' "$#" "$2"
    done
    """
    (tmp_path / "file").touch()
    lines = run(["bash", "-c", script, "bash", "", str(tmp_path)], kubeconfig).splitlines()
    assert lines == [f"2;objective={value}" for value in PRINTABLE]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("typed", "inserted"),
    [
        ("Fi", "'Fix the build'"),
        ("Fix\\ t", "'Fix the build'"),
        ("'Fix t", "'Fix the build'"),
        ("url:", "'a b'"),
        ("'url:a", "'url:a b'"),
    ],
)
def test_bash_quotes_what_it_replaces(kubeconfig, typed, inserted):
    script = f"{COMPLETE} printf '%s\\n' \"${{COMPREPLY[@]}}\""
    assert run(["bash", "-c", script, "bash", typed], kubeconfig) == f"{inserted}\n"


def test_zsh_and_fish_get_values_that_they_quote_and_kubectl_only_plain_words(kubeconfig):
    line = "kais blueprint use notebook --set objective="
    values = [f"objective={value}" for value in PRINTABLE]
    fish = run(["kais", "__complete", "fish", line], kubeconfig).splitlines()
    assert fish == [f"{value}\t" for value in [*values, "objective="]]
    zsh = run(["kais", "__complete", "zsh", line], kubeconfig).splitlines()
    assert zsh == [f"{value.replace(':', chr(92) + ':')}:" for value in [*values, "objective="]]
    program = str(BIN / "kubectl_complete-kais")
    words = ["blueprint", "use", "notebook", "--set", "objective="]
    assert run([program, *words], kubeconfig) == "objective=\t\n:6\n"


def test_kubectl_gets_names_and_a_directive_from_the_plugin(kubeconfig):
    program = str(BIN / "kubectl_complete-kais")
    assert run([program, "blueprint", "show", "no"], kubeconfig) == "notebook\tWrites notes.\n:4\n"
    open_value = run([program, "blueprint", "use", "notebook", "--set", "q"], kubeconfig)
    assert open_value == "question=\tWhat to ask.\n:6\n"
    formats = run([program, "blueprint", "list", "-o", "js"], kubeconfig)
    assert formats == "json\t\njsonpath=\t\n:4\n"


def test_a_cluster_that_does_not_answer_offers_nothing(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    assert run(["kais", "__complete", "bash", "kais blueprint show "], path) == ""


def test_completion_loads_neither_typer_nor_the_models(kubeconfig):
    code = (
        "import sys; sys.argv = ['kais', '__complete', 'bash', 'kais blueprint show no'];"
        "from kais_cli import entry_points; entry_points.main();"
        "print([m for m in ('typer', 'pydantic', 'kr8s', 'rich') if m in sys.modules])"
    )
    assert run([sys.executable, "-c", code], kubeconfig).splitlines() == ["notebook", "[]"]


def test_a_command_is_completed_without_asking_for_a_cluster(tmp_path):
    code = (
        "import sys; sys.argv = ['kais', '__complete', 'bash', 'kais mission l'];"
        "from kais_cli import entry_points; entry_points.main();"
        "print([m for m in ('kais_cluster.operations', 'ssl') if m in sys.modules])"
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}  # noqa: TID251 - as above
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == ["list", "logs", "[]"]


def test_completing_loads_no_library_that_it_can_do_without(tmp_path):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    code = (
        "import sys; from kais_cli import entry_points;"
        "sys.argv = ['kais', '__complete', 'bash',"
        f" 'kais mission show --kubeconfig {kubeconfig} '];"
        "entry_points.main();"
        "print([m for m in ('httpx', 'pydantic', 'statistics', 'typer') if m in sys.modules],"
        " 'urllib.request' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "[] True"
