"""A TCP proxy before the API server that can cut every connection, or swallow what they carry."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Listens on a port of its own; a thread per direction, as tests open few connections."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open: set[socket.socket] = set()
        self._deaf: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        self._is_silent = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Break every connection and refuse new ones; gives how many were broken."""
        with self._lock:
            self._is_cut = True
            broken, self._open = self._open, set()
        for connection in broken:
            _shut(connection)
        return len(broken)

    def swallow(self) -> int:
        """Drop what comes over the connections that are open, which stay open; gives their number.

        New ones work: so it is when a router forgets its connections.
        """
        with self._lock:
            self._deaf |= self._open
            return len(self._open)

    def fall_silent(self) -> None:
        """Keep every connection open, new ones too, and let nothing of the answers through."""
        self._is_silent = True

    def mend(self) -> None:
        """Let new connections through again, and what they carry."""
        self._is_cut = self._is_silent = False

    def close(self) -> None:
        self.cut()
        _shut(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                _shut(client)
                continue
            server = socket.create_connection(self._target)
            with self._lock:
                self._open |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source not in self._deaf and not self._is_silent:
                    sink.sendall(data)
        with self._lock:
            self._open -= {source, sink}
            self._deaf -= {source, sink}
        _shut(source)
        _shut(sink)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
