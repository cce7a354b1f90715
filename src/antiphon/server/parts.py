"""What the routes and the middleware find in the application: one object, by one key. And whose request it is, by its key."""

from typing import NamedTuple

from aiohttp import web
from msgspec import Struct

from antiphon.errors import Unauthorized
from antiphon.files.batches.batches import Batches
from antiphon.files.library import FileLibrary
from antiphon.files.uploads import Uploads
from antiphon.files.vector_stores.store_files import StoreFiles
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.gateway.passed_through.own_embeddings import OwnEmbeddings
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.runs.short_answers import QueryRewriter
from antiphon.gateway.state.conversations import Conversations
from antiphon.gateway.state.owners import Keyring
from antiphon.ids import ADMIN
from antiphon.sandbox.containers.containers import Containers
from antiphon.server.inspector.inspector import Inspection
from antiphon.server.nearest_route import NearestRoute
from antiphon.server.paths import ProtocolPaths
from antiphon.server.readiness import OpenWork
from antiphon.server.request_headers import AllowedHosts, CrossOrigin
from antiphon.server.request_state import OWNER, Exposed
from antiphon.server.siblings import Siblings
from antiphon.transport import Transport


class HttpLimits(NamedTuple):
    # The context window, in tokens, that Codex gets for a model whose engine does not report one.
    context_window: int
    max_body_bytes: int
    # Seconds that a WebSocket may stay open.
    websocket_lifetime: float
    # Seconds between two pings of a WebSocket.
    websocket_ping: float
    # Seconds that a client has to answer the close of its WebSocket.
    websocket_farewell: float
    # Requests of one WebSocket that may wait for the responses before them.
    websocket_queue: int


class Access(Struct, frozen=True):
    """Who may use the gateway."""

    keyring: Keyring
    # The keys that may read the metrics, and nothing else.
    metrics_keys: Keyring
    cross_origin: CrossOrigin
    allowed_hosts: AllowedHosts


class Resources(Struct, frozen=True):
    """What clients create and fetch beside responses."""

    conversations: Conversations
    files: FileLibrary
    vector_stores: VectorStores
    store_files: StoreFiles
    batches: Batches
    uploads: Uploads
    embeddings: OwnEmbeddings
    queries: QueryRewriter
    # None: the settings switch them off.
    containers: Containers | None


class Routing(Struct, frozen=True):
    """For answers to what fails."""

    protocols: ProtocolPaths
    nearest: NearestRoute


class Parts(Struct, frozen=True):
    gateway: Gateway
    access: Access
    resources: Resources
    routing: Routing
    transport: Transport
    limits: HttpLimits
    siblings: Siblings
    inspection: Inspection
    open: OpenWork
    # None: nothing is counted.
    metrics: Exposed | None


APP = web.AppKey("app", Parts)


async def owner_of_key(request: web.Request) -> str:
    """By the keys as they are now: while a WebSocket is open, they may change. Raises Unauthorized."""
    app = request.app[APP]
    keyring = app.access.keyring
    if not keyring:
        return ""
    given = key_of(request, app)
    if not given:
        raise Unauthorized("No API key: send `Authorization: Bearer KEY`, `api-key: KEY` or `x-api-key: KEY`.")
    owner = keyring.owner_of(given)
    if owner is None:
        raise Unauthorized("Incorrect API key provided.")
    return await app.gateway.owners.settled(owner)


def is_trusted(request: web.Request) -> bool:
    """Whether it may see what is behind the gateway: it has a valid key, or no keys are set."""
    app = request.app[APP]
    return not app.access.keyring or app.access.keyring.owner_of(key_of(request, app)) is not None


async def owner_seen(request: web.Request, id: str) -> str:
    """Whose response or conversation a request may read and delete: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    return await request.app[APP].gateway.store.owner_of(id) or owner if owner == ADMIN else owner


def key_of(request: web.Request, app: Parts) -> bytes:
    """As OpenAI's clients send it, or Azure's, or those of another protocol."""
    headers = request.headers
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    key = given.strip() if scheme.lower() == "bearer" else ""
    if not key:
        names = ("api-key", *app.routing.protocols.key_headers)
        key = next((sent for name in names if (sent := headers.get(name, "").strip())), "")
    return key.encode(errors="surrogateescape")
