"""The version of the analysis, as it was when this process started.

If a newer version is installed while the service runs, a worker would start with that one. Its
terms of a fact may differ, and the index would mix both.
"""

from __future__ import annotations

from importlib import metadata

from knowledge_service.search.text import analyser

VERSION = f"{metadata.version('kais')} {analyser.VERSION}".encode()
