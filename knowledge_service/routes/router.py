"""Which route a request is for."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send


class ExactRouter(Router):
    """Finds a route without parameters by its method and path, before any pattern is tried."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        super().__init__(list(routes))
        self._exact = {
            (method, route.path): route
            for route in self.routes
            if isinstance(route, Route) and not route.param_convertors
            for method in route.methods or ()
        }

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        route = self._exact.get((scope["method"], scope["path"]))
        if route is None:
            await super().app(scope, receive, send)
        else:
            scope["route"], scope["path_params"] = route, {}
            await route.app(scope, receive, send)
