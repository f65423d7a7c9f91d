"""Times as this store's other modules import them."""

from knowledge_service.store.times import from_us, to_us

__all__ = ["from_us", "to_us"]
