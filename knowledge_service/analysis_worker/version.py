"""Which version this is, as it was when this process began.

A newer version that is installed while the service runs would be what is started: its words of a
fact may be others, and the index would be neither the one's nor the other's.
"""

from __future__ import annotations

from importlib import metadata

from knowledge_service.search.text import analyser

VERSION = f"{metadata.version('kais')} {analyser.VERSION}".encode()
