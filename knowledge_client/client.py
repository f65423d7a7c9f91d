"""The clients of the knowledge service: the same methods, sync and async."""

from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.sync_client import KnowledgeClient

__all__ = ["AsyncKnowledgeClient", "KnowledgeClient"]
