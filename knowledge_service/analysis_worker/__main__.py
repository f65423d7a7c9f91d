"""The analysis worker: reads the texts of batches from its standard input and answers the analysis.

It reads and writes nothing else, and caches only words. It ends after some time without work, or
when the service has ended.
"""

from __future__ import annotations

import signal
import socket
import sys

import msgspec

from knowledge_service import process_messages as messages
from knowledge_service.analysis_worker import version
from knowledge_service.domain.fact_text import FactText
from knowledge_service.search.text import batch_analysis


def main() -> None:
    """Answer requests until none come."""
    # The service handles a signal to the whole process group, and ends this process.
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
    return msgspec.msgpack.encode(batch_analysis.analyse_batch(_TEXTS.decode(message)))


_TEXTS = msgspec.msgpack.Decoder(tuple[FactText, ...])


if __name__ == "__main__":
    main()
