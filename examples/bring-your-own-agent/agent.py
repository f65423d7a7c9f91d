"""An A2A 1.0 agent that does not use kais: it counts the words of each message."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fasta2a.applications import FastA2A
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, Skill, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage
from fasta2a.worker import Worker

PORT = 9000


class WordCounter(Worker[list[Message]]):
    """Answers each task with a sentence. A real agent would call a model."""

    async def run_task(self, params: TaskSendParams) -> None:
        """Work on one message."""
        await self.storage.update_task(params["id"], state="working")
        text = " ".join(part.get("text", "") for part in params["message"]["parts"])
        answer = f"The objective has {len(text.split())} words."
        artifacts = self.build_artifacts(answer)
        await self.storage.update_task(
            params["id"], state="completed", new_artifacts=artifacts, new_messages=[]
        )

    async def cancel_task(self, params: TaskIdParams) -> None:
        """Cancel a task that has not begun."""
        await self.storage.update_task(params["id"], state="canceled")

    def build_message_history(self, history: list[Message]) -> list[Any]:
        """Return the history unchanged."""
        return history

    def build_artifacts(self, result: str) -> list[Artifact]:
        """Return the answer as an artifact."""
        part = Part(text=result, media_type="text/plain")
        return [Artifact(artifact_id=str(uuid.uuid4()), name="answer", parts=[part])]


def create_app() -> FastA2A:
    """Return the server: its card is at `/.well-known/agent-card.json`, its methods at `/`."""
    storage: InMemoryStorage[list[Message]] = InMemoryStorage()
    broker = InMemoryBroker()
    worker = WordCounter(broker=broker, storage=storage)

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    skill = Skill(
        id="count",
        name="count words",
        description="Counts the words of a text.",
        tags=["text"],
        input_modes=["text/plain"],
        output_modes=["text/plain"],
    )
    return FastA2A(
        storage=storage,
        broker=broker,
        name="word-counter",
        description="Counts words.",
        url=f"http://localhost:{PORT}/",
        skills=[skill],
        lifespan=lifespan,
    )


if __name__ == "__main__":
    uvicorn.run(create_app(), host="0.0.0.0", port=int(os.environ.get("PORT", PORT)))  # noqa: S104
