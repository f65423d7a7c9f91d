"""The process aside: takes texts of batches on its standard input, gives what it found of each.

It reads nothing else, writes nothing, and keeps nothing but words that it has seen. It ends when
nobody has asked for a while or the service has gone.
"""

from __future__ import annotations

import signal
import socket
import sys

import msgspec

from knowledge_service.analysis_worker import messages, version
from knowledge_service.domain.facts import FactText
from knowledge_service.search.text import batch_analysis


def main() -> None:
    """Answer until nobody asks."""
    # A signal to the whole group is for the service to answer: it lets this process go.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=sys.stdin.fileno()) as service:
        service.settimeout(float(sys.argv[1]))
        try:
            messages.send(service, version.VERSION)
            while True:
                messages.send(service, answer(messages.receive(service)))
        except OSError:
            return


def answer(message: bytes) -> bytes:
    """Analyse the texts of a message."""
    return msgspec.msgpack.encode(batch_analysis.look(_TEXTS.decode(message)))


_TEXTS = msgspec.msgpack.Decoder(tuple[FactText, ...])


if __name__ == "__main__":
    main()
