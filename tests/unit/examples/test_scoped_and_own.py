"""The smaller examples: valid for our kinds, of this version, and with their programs tried."""

import ast
import json
import runpy
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from kais import blueprint_rendering
from kais.resources import kinds

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FILES = [
    *sorted(EXAMPLES.glob("scoped-knowledge/*.yaml")),
    *sorted(EXAMPLES.glob("bring-your-own-image/*.yaml")),
    *sorted(EXAMPLES.glob("bring-your-own-agent/*.yaml")),
    *sorted(EXAMPLES.glob("shapes/*.yaml")),
]


def bodies(path):
    return [body for body in yaml.safe_load_all(path.read_text()) if body]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_manifest_is_valid(path):
    for body in bodies(path):
        assert kinds.read(body).metadata.name == body["metadata"]["name"]


@pytest.mark.parametrize("name", ["bring-your-own-image", "bring-your-own-agent"])
def test_own_image_is_that_of_this_version(name):
    formation, _ = bodies(EXAMPLES / name / "team.yaml")
    image = formation["spec"]["cells"][0]["spec"]["container"]["image"]
    assert image == f"localhost/kais/{name}:{VERSION}"


def test_own_agent_contains_nothing_of_kais():
    tree = ast.parse((EXAMPLES / "bring-your-own-agent/agent.py").read_text())
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - sys.stdlib_module_names == {"fasta2a", "uvicorn"}


def test_notebook_keeps_texts_of_users_out_of_its_commands():
    (body,) = bodies(EXAMPLES / "scoped-knowledge/notebook.yaml")
    spec = body["spec"]
    assert blueprint_rendering.compile_blueprint(spec).is_good
    rendered = blueprint_rendering.render_blueprint(
        spec,
        {"note": '"; rm -rf / #', "question": "$(id) `id`"},
        blueprint="notebook",
        revision=1,
        instance="x",
        namespace="red",
    )
    container = rendered.formation_spec["cells"][0]["spec"]["container"]
    assert container["image"] == f"localhost/kais/client:{VERSION}"
    assert "rm -rf" not in json.dumps([container["command"], container["args"]])
    assert [item["value"] for item in container["env"]] == ['"; rm -rf / #', "$(id) `id`"]


class _Service(BaseHTTPRequestHandler):
    """Takes facts, and keeps what came."""

    status, seen = 201, []

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, self.headers["Authorization"], json.loads(text)))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b'{"fact_id": "f1", "status": "created"}')

    def log_message(self, *_):
        """Stay silent."""


@pytest.fixture
def service():
    _Service.seen = []
    server = HTTPServer(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def run_task(tmp_path, monkeypatch, url):
    (tmp_path / "token").write_text("tok\n")
    (tmp_path / "known.json").write_text('{"facts": [{"id": "f0", "content": "before"}]}')
    for name, value in {
        "KAIS_OBJECTIVE": "Count the words of $(THIS) sentence",
        "KAIS_ATTEMPT": "1",
        "KAIS_RUN_ID": "r1",
        "KAIS_KNOWLEDGE_FILE": str(tmp_path / "known.json"),
        "KNOWLEDGE_SERVICE_URL": url,
        "KNOWLEDGE_TOKEN_FILE": str(tmp_path / "token"),
        "RESULT_FILE": str(tmp_path / "result"),
    }.items():
        monkeypatch.setenv(name, value)
    task = runpy.run_path(str(EXAMPLES / "bring-your-own-image/task.py"))
    assert task["main"]() == 0
    return json.loads((tmp_path / "result").read_text())


def test_own_image_reads_what_is_given_and_remembers_with_its_token(tmp_path, monkeypatch, service):
    result = run_task(tmp_path, monkeypatch, service)
    assert result == {"words": 6, "attempt": 1, "given": ["before"], "remembered": "created"}
    path, authorization, body = _Service.seen[0]
    assert (path, authorization) == ("/v1/facts", "Bearer tok")
    assert body["content"] == 'the objective "Count the words of $(THIS) sentence" has 6 words'


def test_own_image_works_on_without_the_store(tmp_path, monkeypatch):
    result = run_task(tmp_path, monkeypatch, "http://127.0.0.1:9")
    assert result["words"] == 6
    assert result["remembered"].startswith("not stored: ")
