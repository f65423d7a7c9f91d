"""What the service and the process of the searches send to each other, as MessagePack.

One connection is for control: the settings, then each change of the erasure version. The process
acknowledges each with an empty message. On the health connection it returns what it receives. Over
another one, the service reports that a search has waited for long. Each of the other connections
has one search at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from knowledge_service.ports import Search
from knowledge_service.search import ranker_version
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.text import analyser
from knowledge_service.store.sqlite.repositories.recall_search import EncodedResult
from knowledge_service.store.sqlite.repositories.recall_snapshot import Vector

ACKNOWLEDGED = b""
PING = b"ping"
OVERDUE = b""


class Settings(msgspec.Struct):
    """The first message: what to search, how, and the file descriptors of the connections.

    The process replies with `version` once it is ready.
    """

    path: str
    reads_within_s: float
    ranker_config: RankerConfig
    health: int
    overdue: int
    connections: list[int]


def version(config: RankerConfig) -> bytes:
    """Return the version of what this process searches with: its ranker and its analyser.

    If a newer version is installed while the service runs, a process would start with that one, and
    look up its terms in an index of the older one.
    """
    return f"{ranker_version.version_of(config)} {analyser.VERSION}".encode()


class ErasureVersion(msgspec.Struct, tag=True):
    """The version of erasures from now on; odd while an erasure is being committed."""

    number: int


class Erased(msgspec.Struct, tag=True):
    """The documents that a version erased, by scope; None for an emptied scope."""

    version: int
    documents: dict[int, list[int] | None]


class SearchRequest(msgspec.Struct):
    """Requests a search until a deadline, a time of `time.monotonic`."""

    number: int
    search: Search
    vector: Vector | None
    ends_at_s: float


class Failure(msgspec.Struct):
    """The error of a search: its class in `errors`, or "" for one that nobody expected."""

    kind: str
    detail: str


class SearchResponse(msgspec.Struct):
    """The response to the `SearchRequest` with this number: a result or a failure."""

    number: int
    result: EncodedResult | None = None
    failure: Failure | None = None


Control = ErasureVersion | Erased

encode = msgspec.msgpack.Encoder().encode
decode_settings = msgspec.msgpack.Decoder(Settings).decode
decode_control = msgspec.msgpack.Decoder(Control).decode
decode_request = msgspec.msgpack.Decoder(SearchRequest).decode
decode_response = msgspec.msgpack.Decoder(SearchResponse).decode


def documents_of(erased: Sequence[tuple[int, Sequence[int] | None]]) -> dict[int, list[int] | None]:
    """Return erased documents in the form of `Erased`."""
    return {
        number: None if ordinals is None else list(map(int, ordinals))
        for number, ordinals in erased
    }
