"""The service's routes over a store that keeps nothing: what HTTP alone costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import uvicorn

from knowledge_client.models import Remembered, ScopeConfig
from knowledge_service.asgi_app import create_app
from knowledge_service.authentication.disabled import NoAuthentication
from knowledge_service.ports import Store


class NoStore:
    """Takes every fact and forgets it."""

    def scope_configs(self, _: Sequence[str]) -> Mapping[str, ScopeConfig]:
        return {}

    async def remembered(self, facts: Sequence[Any], **_: Any) -> tuple[Remembered, ...]:
        return tuple(Remembered(fact_id="none", status="created") for _ in facts)


if __name__ == "__main__":
    app = create_app(cast("Store", NoStore()), NoAuthentication())
    uvicorn.run(
        app, port=int(sys.argv[1]), http="httptools", loop="uvloop", log_config=None,
        access_log=False, proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
