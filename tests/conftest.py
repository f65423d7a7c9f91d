"""What holds for all tests: a property is never held to a time, as the machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")
