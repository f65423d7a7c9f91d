"""Run the model server: `python -m tests.model_server --script FILE --port 8080`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import uvicorn

from tests.model_server import script
from tests.model_server.app import ConnectionCut, ModelServer


class _WithoutCuts(logging.Filter):
    """Drops the tracebacks of connections that a script cuts on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], ConnectionCut)


def main() -> None:
    """Serve a script until a signal."""
    parser = argparse.ArgumentParser(prog="model_server", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="YAML file with the rules")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    try:
        rules = script.parse(arguments.script.read_text())
    except (OSError, script.InvalidScript) as exc:
        sys.exit(f"{arguments.script}: {exc}")
    logging.getLogger("uvicorn.error").addFilter(_WithoutCuts())
    uvicorn.run(
        ModelServer(rules).app(), host=arguments.host, port=arguments.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
