"""The operator as it is, but for one thing: it reaches the cells of a bench on loopback ports.

On a control plane without nodes the proxy of the API server leads to no pod. KAIS_BENCH_CELLS names
a JSON file with the port of each cell's Service.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx

from kais_operator import __main__ as operator
from kais_operator import composition
from kais_operator.agents.transport import DirectTransport


class Loopback(DirectTransport):
    """Sends requests for the Service of a cell to its process."""

    def __init__(self, _: object) -> None:
        super().__init__()
        self._ports = json.loads(Path(os.environ["KAIS_BENCH_CELLS"]).read_text())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        port = self._ports[request.url.host.partition(".")[0]]
        request.url = request.url.copy_with(host="127.0.0.1", port=port)
        return await super().handle_async_request(request)


if __name__ == "__main__":
    setattr(composition, "ProxiedTransport", Loopback)  # noqa: B010 - not its export
    operator.main()
