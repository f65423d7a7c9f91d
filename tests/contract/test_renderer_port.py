from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kais_operator.adapters.renderer import WorkerRenderer
from tests.contract.renderer_port import RendererContract
from tests.fakes.renderer import InProcessRenderer


class TestInProcessRenderer(RendererContract):
    @pytest.fixture
    def renderer(self) -> InProcessRenderer:
        return InProcessRenderer()


class TestWorkerRenderer(RendererContract):
    @pytest.fixture
    async def renderer(self) -> AsyncIterator[WorkerRenderer]:
        renderer = WorkerRenderer(workers=1)
        yield renderer
        await renderer.close()
