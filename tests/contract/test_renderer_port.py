from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kais_operator.rendering.renderer import WorkerRenderer
from kais_rendering.socket_client import RenderClient
from kais_rendering.socket_server import RenderServer
from kais_rendering.worker_pool import RenderPool
from tests.contract.renderer_port import RendererContract
from tests.fakes.renderer import InProcessRenderer


class TestInProcessRenderer(RendererContract):
    @pytest.fixture
    def renderer(self) -> InProcessRenderer:
        return InProcessRenderer()


class TestWorkerRenderer(RendererContract):
    @pytest.fixture
    async def renderer(self) -> AsyncIterator[WorkerRenderer]:
        renderer = WorkerRenderer(RenderPool(workers=1))
        yield renderer
        await renderer.close()


class TestWorkerRendererOverASocket(RendererContract):
    @pytest.fixture
    async def renderer(self, tmp_path: Path) -> AsyncIterator[WorkerRenderer]:
        server = RenderServer(RenderPool(workers=1), tmp_path / "renderer.sock")
        client = RenderClient(tmp_path / "renderer.sock", grace_s=60)
        await server.start()
        renderer = WorkerRenderer(client)
        yield renderer
        await renderer.close()
        await server.close()
