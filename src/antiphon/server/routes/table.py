"""Every route of the gateway, what answers it, and which bodies it takes."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web
from yarl import URL

from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.messages.protocol import COUNT_PATH
from antiphon.core.protocols.table import PROTOCOLS
from antiphon.server.bodies import LARGE, SMALL, Bodies
from antiphon.server.paths import has_version, under_all_paths
from antiphon.server.routes import (
    containers,
    conversations,
    files,
    inspector,
    inspector_lists,
    models,
    responses,
    stored,
    vector_stores,
    websocket,
)
from antiphon.server.routes.bulk import batches, message_batches, uploads
from antiphon.server.routes.metrics import metrics
from antiphon.server.routes.passed_through import embeddings, passed_through, passed_to_its_engine
from antiphon.server.usage import organization

Answer: TypeAlias = Awaitable[web.StreamResponse]


def _post(path: str, handler: Callable[..., Answer], bodies: Bodies | None) -> web.RouteDef:
    """`bodies`: how large they may be. None: the handler reads none, or a form, piece by piece."""
    return web.post(path, handler if bodies is None else partial(handler, bodies=bodies))


# A file of a container.
MADE = "{id:cfile_[0-9a-zA-Z_-]+}"
# What only some engines serve.
ENGINE_PATHS = (
    *("audio/speech", "audio/transcriptions", "audio/translations"),
    *("images/generations", "images/edits", "images/variations"),
    *("rerank", "moderations"),
)

# Also under other prefixes.
API_ROUTES = [
    _post("/v1/responses", responses.create, LARGE),
    web.get("/v1/responses", websocket.converse, allow_head=False),
    _post("/v1/responses/compact", responses.compact, LARGE),
    _post("/v1/responses/input_tokens", responses.input_tokens, LARGE),
    _post(COUNT_PATH, responses.count_tokens, LARGE),
    web.get("/v1/responses/{id}", stored.retrieve),
    web.delete("/v1/responses/{id}", stored.delete),
    _post("/v1/responses/{id}/cancel", stored.cancel, None),
    web.get("/v1/responses/{id}/input_items", stored.input_items),
    _post("/v1/conversations", conversations.create, LARGE),
    web.get("/v1/conversations/{id}", conversations.retrieve),
    _post("/v1/conversations/{id}", conversations.update, SMALL),
    web.delete("/v1/conversations/{id}", conversations.delete),
    _post("/v1/conversations/{id}/items", conversations.create_items, LARGE),
    web.get("/v1/conversations/{id}/items", conversations.list_items),
    web.get("/v1/conversations/{id}/items/{item_id}", conversations.retrieve_item),
    web.delete("/v1/conversations/{id}/items/{item_id}", conversations.delete_item),
    _post("/v1/containers", containers.create, SMALL),
    web.get("/v1/containers", containers.list_all),
    web.get("/v1/containers/{id}", containers.retrieve),
    web.delete("/v1/containers/{id}", containers.delete),
    # A form is read piece by piece.
    _post("/v1/containers/{id}/files", containers.create_file, SMALL),
    web.get("/v1/containers/{id}/files", containers.list_files),
    web.get("/v1/containers/{id}/files/{file_id}", containers.retrieve_file),
    web.delete("/v1/containers/{id}/files/{file_id}", containers.delete_file),
    web.get("/v1/containers/{id}/files/{file_id}/content", containers.file_content),
    # Files that code has written: before those with any id.
    web.get(f"/v1/files/{MADE}", containers.made_file),
    web.delete(f"/v1/files/{MADE}", containers.delete_made),
    web.get(f"/v1/files/{MADE}/content", containers.made_content),
    _post("/v1/files", files.create, None),
    web.get("/v1/files", files.list_files),
    web.get("/v1/files/{id}", files.retrieve),
    web.delete("/v1/files/{id}", files.delete),
    web.get("/v1/files/{id}/content", files.content),
    _post("/v1/uploads", uploads.create, SMALL),
    # A form is read piece by piece.
    _post("/v1/uploads/{id}/parts", uploads.add_part, None),
    _post("/v1/uploads/{id}/complete", uploads.complete, SMALL),
    _post("/v1/uploads/{id}/cancel", uploads.cancel, None),
    _post("/v1/batches", batches.create, SMALL),
    web.get("/v1/batches", batches.list_batches),
    web.get("/v1/batches/{id}", batches.retrieve),
    _post("/v1/batches/{id}/cancel", batches.cancel, None),
    _post("/v1/messages/batches", message_batches.create, LARGE),
    web.get("/v1/messages/batches", message_batches.list_batches),
    web.get("/v1/messages/batches/{id}", message_batches.retrieve),
    web.delete("/v1/messages/batches/{id}", message_batches.delete),
    _post("/v1/messages/batches/{id}/cancel", message_batches.cancel, None),
    web.get("/v1/messages/batches/{id}/results", message_batches.results),
    _post("/v1/vector_stores", vector_stores.create, SMALL),
    web.get("/v1/vector_stores", vector_stores.list_stores),
    web.get("/v1/vector_stores/{id}", vector_stores.retrieve),
    _post("/v1/vector_stores/{id}", vector_stores.update, SMALL),
    web.delete("/v1/vector_stores/{id}", vector_stores.delete),
    _post("/v1/vector_stores/{id}/search", vector_stores.search, SMALL),
    _post("/v1/vector_stores/{id}/files", vector_stores.create_file, SMALL),
    web.get("/v1/vector_stores/{id}/files", vector_stores.list_files),
    web.get("/v1/vector_stores/{id}/files/{file_id}", vector_stores.retrieve_file),
    _post("/v1/vector_stores/{id}/files/{file_id}", vector_stores.update_file, SMALL),
    web.delete("/v1/vector_stores/{id}/files/{file_id}", vector_stores.delete_file),
    web.get("/v1/vector_stores/{id}/files/{file_id}/content", vector_stores.file_content),
    _post("/v1/vector_stores/{id}/file_batches", vector_stores.create_batch, LARGE),
    web.get("/v1/vector_stores/{id}/file_batches/{batch_id}", vector_stores.retrieve_batch),
    _post("/v1/vector_stores/{id}/file_batches/{batch_id}/cancel", vector_stores.cancel_batch, None),
    web.get("/v1/vector_stores/{id}/file_batches/{batch_id}/files", vector_stores.list_batch),
    web.get("/v1/models", models.models),
    web.get("/v1/models/{id:.+}", models.model),
    web.get("/v1/organization/usage/completions", organization.completions),
    web.get("/v1/organization/usage/embeddings", organization.embeddings),
    web.get("/v1/organization/costs", organization.costs),
    _post("/v1/chat/completions", passed_through, LARGE),
    _post("/v1/completions", passed_through, LARGE),
    _post("/v1/embeddings", embeddings, LARGE),
    *(_post(f"/v1/{path}", passed_to_its_engine, LARGE) for path in ENGINE_PATHS),
]
OTHER_ROUTES = [
    web.get("/health", models.health),
    web.get("/ready", models.ready),
    web.get("/", inspector.index),
    web.get("/inspector/page/{name:.+}", inspector.page_file),
    web.get("/inspector/status", inspector.status),
    web.get("/inspector/requests", inspector.requests),
    web.delete("/inspector/requests", inspector.forget),
    web.get("/inspector/requests/{number}", inspector.one),
    web.get("/inspector/requests/{number}/recording", inspector.recording),
    web.get("/inspector/live", inspector.live, allow_head=False),
    web.get("/metrics", metrics),
    web.get("/inspector/engines", inspector_lists.engines),
    web.get("/inspector/stored/responses", inspector_lists.responses),
    web.get("/inspector/stored/conversations", inspector_lists.conversations),
    web.get("/inspector/stored/files", inspector_lists.files),
    web.get("/inspector/stored/vector_stores", inspector_lists.vector_stores),
    web.get("/inspector/stored/batches", inspector_lists.batches),
    web.get("/inspector/stored/containers", inspector_lists.containers),
]


class RouteTable(NamedTuple):
    # Also under other prefixes.
    api: Sequence[web.RouteDef]
    others: Sequence[web.RouteDef]
    # Method and path of those that other tables do not have.
    own: Set[tuple[str, str]]

    @property
    def served(self) -> list[web.RouteDef]:
        shared = _shared_routes()
        served: list[web.RouteDef] = []
        for route in self.api:
            place = route.method, route.path
            served += under_all_paths([route]) if place in self.own else shared[place]
        return [*served, *self.others]

    def add_to(self, app: web.Application) -> None:
        shared = _shared_resources()
        for path, routes in _by_path(self.served).items():
            others, resource = shared.get(path, ([], None))
            app.router.register_resource(resource if resource is not None and others == routes else _resource(path, routes))


def _by_path(routes: Iterable[web.RouteDef]) -> Mapping[str, list[web.RouteDef]]:
    by_path: dict[str, list[web.RouteDef]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    return by_path


def _resource(path: str, routes: Sequence[web.RouteDef]) -> web.AbstractResource:
    return _LateResource(path, routes) if "{" in path else _made_resource(routes)


def _made_resource(routes: Iterable[web.RouteDef]) -> web.AbstractResource:
    router = web.UrlDispatcher()
    router.add_routes(routes)
    (resource,) = router.resources()
    return resource


# Nothing in a resource belongs to an application: a process that has many of them, as in the tests, makes these once. To make
# them took each a third of its time to start.


@cache
def _shared_routes() -> Mapping[tuple[str, str], Sequence[web.RouteDef]]:
    """Those of the API, under all of their paths."""
    return {(route.method, route.path): tuple(under_all_paths([route])) for route in API_ROUTES}


@cache
def _shared_resources() -> Mapping[str, tuple[list[web.RouteDef], web.AbstractResource]]:
    """What each path serves in a gateway without other protocols."""
    shared = [*chain.from_iterable(_shared_routes().values()), *OTHER_ROUTES]
    return {path: (routes, _resource(path, routes)) for path, routes in _by_path(shared).items()}


class _LateResource(web.AbstractResource):
    """A path with a pattern, which is compiled with the first request that may match it: there are hundreds, and most are never
    asked for. Compiled when the gateway starts, they took a twentieth of that time."""

    # The pattern of a part that is not any text.
    _PATTERN = re.compile(r":[^{}]*")

    def __init__(self, path: str, routes: Sequence[web.RouteDef]) -> None:
        super().__init__()
        self._path = path
        self._routes = routes
        self._canonical = self._PATTERN.sub("", path)

    @cached_property
    def _compiled(self) -> web.AbstractResource:
        return _made_resource(self._routes)

    @property
    def canonical(self) -> str:
        return self._canonical

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        return await self._compiled.resolve(request)

    def url_for(self, **parts: str) -> URL:
        return self._compiled.url_for(**parts)

    def add_prefix(self, prefix: str) -> None:
        self._compiled.add_prefix(prefix)
        self._canonical = self._compiled.canonical

    def get_info(self) -> Any:
        return self._compiled.get_info()

    def raw_match(self, path: str) -> bool:
        return self._path == path

    def __len__(self) -> int:
        return len(self._compiled)

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter(self._compiled)


def route_table(protocols: Iterable[ClientProtocol]) -> RouteTable:
    """`protocols`: beside the Responses API. A path that one of them has is its own, also if it would be passed through."""
    own = [_protocol_route(each, path, method) for each in protocols for path, method in each.paths.items()]
    taken = {(route.method, route.path) for route in own}
    versioned = [route for route in own if has_version(route.path)]
    others = [route for route in own if not has_version(route.path)]
    api = [route for route in API_ROUTES if (route.method, route.path) not in taken]
    return RouteTable([*versioned, *api], [*others, *OTHER_ROUTES], taken)


def _protocol_route(protocol: ClientProtocol, path: str, method: str) -> web.RouteDef:
    return web.RouteDef(method, path, partial(responses.create, bodies=LARGE, protocol=protocol), {})


ROUTES = route_table(PROTOCOLS[1:]).served
