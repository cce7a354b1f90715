"""What the routes find in the application."""

from typing import NamedTuple

from aiohttp import web

from antiphon.files.library import FileLibrary
from antiphon.files.vector_stores.store_files import StoreFiles
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.state.conversations import Conversations
from antiphon.gateway.state.owners import Keyring
from antiphon.sandbox.containers.containers import Containers
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


KEYRING = web.AppKey("keyring", Keyring)
GATEWAY = web.AppKey("gateway", Gateway)
CONVERSATIONS = web.AppKey("conversations", Conversations)
FILES = web.AppKey("files", FileLibrary)
VECTOR_STORES = web.AppKey("vector_stores", VectorStores)
STORE_FILES = web.AppKey("store_files", StoreFiles)
TRANSPORT = web.AppKey("transport", Transport)
# None: the settings switch them off.
CONTAINERS: web.AppKey[Containers | None] = web.AppKey("containers")
LIMITS = web.AppKey("limits", HttpLimits)
