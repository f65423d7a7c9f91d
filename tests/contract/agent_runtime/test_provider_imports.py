"""A runtime imports the SDK of its own provider alone."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("provider", "absent"), [("openai", ["anthropic"]), ("anthropic", ["openai"])]
)
def test_only_the_provider_of_the_cell_is_imported(provider, absent):
    program = f"""
import sys
from agent_runtime import task
from agent_runtime.agent import connection
from agent_runtime.mind import MindConfig
from agent_runtime.model_http import ModelKey, create_client
from kais.resources.cell_template import CellMode, Provider
mind = MindConfig(
    provider=Provider("{provider}"), model="m", prompt="p", mode=CellMode.TASK, base_url="http://x"
)
connection.connect(mind, create_client(ModelKey(None), key_header="authorization"))
print([name for name in ("anthropic", "openai", "mcp", "a2a", "tiktoken") if name in sys.modules])
"""
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == str([provider]), absent
