"""What the routes and the middleware find in the application: one object, by one key."""

from typing import NamedTuple

from aiohttp import web
from msgspec import Struct

from antiphon.files.library import FileLibrary
from antiphon.files.vector_stores.store_files import StoreFiles
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.state.conversations import Conversations
from antiphon.gateway.state.owners import Keyring
from antiphon.sandbox.containers.containers import Containers
from antiphon.server.inspector.inspector import Inspection
from antiphon.server.nearest_route import NearestRoute
from antiphon.server.paths import ProtocolPaths
from antiphon.server.readiness import OpenWork
from antiphon.server.request_counts import Exposed
from antiphon.server.request_headers import AllowedHosts, CrossOrigin
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
