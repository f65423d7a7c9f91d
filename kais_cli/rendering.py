"""What a use would make, rendered here as the operator would render it."""

from __future__ import annotations
