"""Vector stores: created, listed, changed, deleted and searched; their files, and batches of files."""

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from antiphon.core.protocols.client_protocol import JSON
from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest
from antiphon.files.vector_stores.search.found import SearchOptions, SearchRow
from antiphon.ids import ADMIN
from antiphon.server.answers import notice_header, to_json
from antiphon.server.bodies import Bodies
from antiphon.server.pages import Page, query_to_page
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.store.files.records import Status
from antiphon.store.sql.listings import RowPage
from antiphon.wire.vector_stores import (
    CreateFileBatch,
    CreateStoreFile,
    CreateVectorStore,
    FileContentPage,
    SearchResult,
    SearchResultsPage,
    SearchVectorStore,
    TextContent,
    UpdateStoreFile,
    UpdateVectorStore,
)

# When the SDK looks again for what is in progress. It takes the first answer's word for all of its looks.
POLL_AFTER = {"openai-poll-after-ms": "250"}
# How many results a search has, if the request does not say.
RESULTS = 10
NOT_REWRITTEN = "rewrite_query had no effect: no model wrote other queries. The log says why"


class StatusFilter(Struct):
    """Of a list of files."""

    filter: Status | None = None


async def create(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CreateVectorStore)
    created = await request.app[APP].resources.vector_stores.create(request[OWNER], body)
    return to_json(created, POLL_AFTER | notices)


async def list_stores(request: web.Request) -> web.Response:
    page = query_to_page(request.query)
    listed = await request.app[APP].resources.vector_stores.list_stores(request[OWNER], _rows(page))
    return _to_list(listed.stores, has_more=listed.has_more)


async def retrieve(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    return to_json(await request.app[APP].resources.vector_stores.get(await _owner_seen(request), id), POLL_AFTER)


async def update(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, UpdateVectorStore)
    return to_json(
        await request.app[APP].resources.vector_stores.update(request[OWNER], request.match_info["id"], body), notices
    )


async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    await request.app[APP].resources.vector_stores.delete(await _owner_seen(request), id)
    return to_json({"id": id, "object": "vector_store.deleted", "deleted": True})


async def search(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, SearchVectorStore)
    queries = [body.query] if isinstance(body.query, str) else body.query
    id, resources, options = request.match_info["id"], request.app[APP].resources, _options(body)
    if body.rewrite_query:
        # Nobody is asked about a store that cannot be searched.
        await resources.vector_stores.check(request[OWNER], [id])
        rewritten = await resources.queries.rewrite(request[OWNER], queries)
        if rewritten is None:
            notices = notices | notice_header([*filter(None, [notices.get("antiphon-notice")]), NOT_REWRITTEN])
        queries = rewritten or queries
    rows = await resources.vector_stores.search(request[OWNER], [id], queries, options)
    return to_json(SearchResultsPage(search_query=queries, data=[_to_result(row) for row in rows]), notices)


def _options(body: SearchVectorStore) -> SearchOptions:
    most, ranking = body.max_num_results or RESULTS, body.ranking_options
    if ranking is None:
        return SearchOptions(most, body.filters)
    hybrid = ranking.hybrid_search
    weights = (None, None) if hybrid is None else (hybrid.embedding_weight, hybrid.text_weight)
    if weights == (0, 0):
        place = "ranking_options.hybrid_search"
        raise InvalidRequest(f"Invalid `{place}`: one of its weights must be above 0.", param=place, code="invalid_value")
    return SearchOptions(most, body.filters, ranking.ranker, ranking.score_threshold, *weights)


def _to_result(row: SearchRow) -> SearchResult:
    return SearchResult(
        file_id=row.file_id,
        filename=row.filename,
        score=row.score,
        attributes=row.attributes,
        content=[TextContent(row.text)],
    )


# ---- files -----------------------------------------------------------------------------------------------------------


async def create_file(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CreateStoreFile)
    added = await request.app[APP].resources.store_files.add(request[OWNER], request.match_info["id"], body)
    return to_json(added, POLL_AFTER | notices)


async def list_files(request: web.Request) -> web.Response:
    page, status = query_to_page(request.query), _status(request)
    files, id = request.app[APP].resources.store_files, request.match_info["id"]
    listed = await files.list_files(await _owner_seen(request), id, _rows(page), status)
    return _to_list(listed.files, has_more=listed.has_more)


async def retrieve_file(request: web.Request) -> web.Response:
    id, file = request.match_info["id"], request.match_info["file_id"]
    return to_json(await request.app[APP].resources.store_files.get(await _owner_seen(request), id, file), POLL_AFTER)


async def update_file(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, UpdateStoreFile)
    id, file = request.match_info["id"], request.match_info["file_id"]
    return to_json(
        await request.app[APP].resources.store_files.update(request[OWNER], id, file, body.attributes or {}), notices
    )


async def delete_file(request: web.Request) -> web.Response:
    id, file = request.match_info["id"], request.match_info["file_id"]
    await request.app[APP].resources.store_files.remove(await _owner_seen(request), id, file)
    return to_json({"id": file, "object": "vector_store.file.deleted", "deleted": True})


async def file_content(request: web.Request) -> web.StreamResponse:
    """Sent as it is read: it may be a whole book, and its reader slow."""
    id, file = request.match_info["id"], request.match_info["file_id"]
    texts = await request.app[APP].resources.store_files.content(await _owner_seen(request), id, file)
    some: list[str] = await anext(texts, [])
    head, tail = msgspec.json.encode(FileContentPage(data=[])).split(b"]")
    answer = web.StreamResponse()
    answer.content_type = JSON
    await answer.prepare(request)
    if request.method == "HEAD":
        return answer
    while some:
        # Without the brackets of the list.
        await answer.write(head + msgspec.json.encode([TextContent(text) for text in some])[1:-1])
        head, some = b",", await anext(texts, [])
    await answer.write_eof(head.removesuffix(b",") + b"]" + tail)
    return answer


# ---- batches ---------------------------------------------------------------------------------------------------------


async def create_batch(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CreateFileBatch)
    made = await request.app[APP].resources.store_files.create_batch(request[OWNER], request.match_info["id"], body)
    return to_json(made, POLL_AFTER | notices)


async def retrieve_batch(request: web.Request) -> web.Response:
    id, batch = request.match_info["id"], request.match_info["batch_id"]
    return to_json(await request.app[APP].resources.store_files.get_batch(await _owner_seen(request), id, batch), POLL_AFTER)


async def cancel_batch(request: web.Request) -> web.Response:
    id, batch = request.match_info["id"], request.match_info["batch_id"]
    return to_json(await request.app[APP].resources.store_files.cancel_batch(await _owner_seen(request), id, batch))


async def list_batch(request: web.Request) -> web.Response:
    page, status = query_to_page(request.query), _status(request)
    id, batch = request.match_info["id"], request.match_info["batch_id"]
    listed = await request.app[APP].resources.store_files.list_batch(await _owner_seen(request), id, batch, _rows(page), status)
    return _to_list(listed.files, has_more=listed.has_more)


# ---- requests and answers --------------------------------------------------------------------------------------------


async def _owner_seen(request: web.Request) -> str:
    """Whose stores a request may read and delete: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    if owner != ADMIN:
        return owner
    return await request.app[APP].resources.vector_stores.owner_of(request.match_info["id"]) or owner


def _status(request: web.Request) -> Status | None:
    query = {name: request.query[name] for name in ("filter",) if name in request.query}
    return convert_strings(query, StatusFilter).filter


def _rows(page: Page) -> RowPage:
    return RowPage(page.after, page.before, page.limit, page.ascending)


def _to_list(objects: Sequence[Any], *, has_more: bool) -> web.Response:
    # The SDK's types have no null for ids.
    first, last = (objects[0].id, objects[-1].id) if objects else ("", "")
    return to_json({"object": "list", "data": objects, "first_id": first, "last_id": last, "has_more": has_more})
