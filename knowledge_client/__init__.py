"""The typed client of the knowledge service, for pods, the operator and the CLI.

with KnowledgeClient() as knowledge:
    for fact in knowledge.recall(models.RecallIn(query="pods crash")).facts:
        print(fact.id, fact.content)
"""

from knowledge_client import errors, models
from knowledge_client.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_client.errors import ErrorCode, KnowledgeError
from knowledge_client.retries import RetryPolicy

__all__ = [
    "AsyncKnowledgeClient",
    "ErrorCode",
    "KnowledgeClient",
    "KnowledgeError",
    "RetryPolicy",
    "errors",
    "models",
]
