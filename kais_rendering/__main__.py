"""`python -m kais_rendering`: serve render workers on a Unix socket, or ping such a server.

In a cluster it runs in a separate container of the operator's pod, as a user that cannot read the
operator's tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path

import uvloop

from kais_rendering.socket_server import RenderServer
from kais_rendering.worker_pool import RenderPool

_PING_S = 5.0


def main() -> None:
    """Run the program; exit with 1 and one line of output if it cannot serve or the ping fails."""
    parser = argparse.ArgumentParser(prog="python -m kais_rendering", description=__doc__)
    parser.add_argument("command", choices=("serve", "ping"))
    parser.add_argument("--socket", type=Path, required=True, help="path of the Unix socket")
    parser.add_argument(
        "--own-user-pings-only",
        action="store_true",
        help="serve other users only; the own one, as which the workers run, may ping",
    )
    arguments = parser.parse_args()
    try:
        if arguments.command == "ping":
            _ping(arguments.socket)
        else:
            pings_only = arguments.own_user_pings_only
            uvloop.run(_serve(arguments.socket, own_user_pings_only=pings_only))
    except OSError as exc:
        sys.exit(f"kais_rendering: {arguments.socket}: {exc}")


async def _serve(path: Path, *, own_user_pings_only: bool) -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = RenderServer(RenderPool(), path, own_user_pings_only=own_user_pings_only)
    await server.start()
    try:
        await stop.wait()
    finally:
        await server.close()


def _ping(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PING_S)
        connection.connect(str(path))
        connection.sendall(bytes(4))
        if not connection.recv(4):
            raise ConnectionError("hung up")


if __name__ == "__main__":
    main()
