"""The addresses of the exporter."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from railbed.web.metrics.exporter import Exporter


def metrics_app(exporter: Exporter) -> Starlette:
    """Return the application that answers Prometheus."""

    async def metrics(_request: Request) -> Response:
        return Response(exporter.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def index(_request: Request) -> Response:
        return PlainTextResponse("Metrics of railbed for Prometheus: /metrics\n")

    async def missing(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse("There is nothing at this address: see /metrics.\n", 404)

    return Starlette(routes=[Route("/", index), Route("/metrics", metrics)], exception_handlers={404: missing})
