"""The detection of an engine: its dialect, by the signs that each dialect lists, and its models."""

import asyncio
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from antiphon.core.knowledge.dialect import Dialect, Lookup, Sign
from antiphon.core.knowledge.dialects import KNOWN, PLAIN
from antiphon.core.knowledge.knowledge import Model
from antiphon.core.knowledge.known_weights import Shape
from antiphon.engines.bodies import read_document
from antiphon.errors import UNREADABLE, ApiError
from antiphon.transport import CLOSE_CONNECTION

DETECTION_TIMEOUT = aiohttp.ClientTimeout(total=5, sock_connect=2)
# What an engine says about itself, in bytes.
LARGEST_DESCRIPTION = 4 * 1024 * 1024
MODELS = "/v1/models"
# What a server answers that has no such route.
NO_SUCH_ROUTE = frozenset({404, 405, 501})
# What a server answers to a request for its models that may serve chats all the same: `transformers serve` without a hub cache
# answers 500, proxies a 400, a 403 or a page. Not a 502, 503 or 504: then the engine is not there yet.
NO_LIST = NO_SUCH_ROUTE | {200, 400, 403, 500}

# The state of a model that answers without being loaded first.
LOADED = "loaded"

# In the version of an engine that was built without one, such as "b0-unknown".
UNKNOWN_VERSION = "unknown"

# The default ports of the engines.
WELL_KNOWN_PORTS: Mapping[int, str] = {
    8080: "llama.cpp",
    8000: "vLLM",
    23333: "LMDeploy",
    30000: "SGLang",
    11434: "Ollama",
    1234: "LM Studio",
}


class DetectedEngine(Struct, frozen=True):
    dialect: Dialect
    models: tuple[Model, ...]
    version: str | None = None


class EngineDocuments:
    """The JSON documents that one engine serves. Each is fetched at most once."""

    def __init__(
        self, session: aiohttp.ClientSession, root: str, headers: dict[str, str], server_name: str | None = None
    ) -> None:
        """`server_name`: for TLS, where it is not that of the root."""
        self._session = session
        self._server_name = server_name
        self._root = root
        self._headers = headers
        self._documents: dict[str, Any] = {}
        self._statuses: dict[str, int] = {}
        self._locations: dict[str, str] = {}
        # Why there was no answer, of the last request that had none.
        self.silence: str | None = None

    async def get(self, path: str, body: bytes | None = None) -> Any:
        request = f"{path} {body!r}"
        if request not in self._documents:
            self._documents[request] = await self._fetch(path, body)
        return self._documents[request]

    def status(self, path: str) -> int | None:
        """Of the answer to a GET that was sent before; None: there was no answer."""
        return self._statuses.get(path)

    def location(self, path: str) -> str | None:
        """Where the answer to such a GET points, if it is a redirect."""
        return self._locations.get(path)

    async def has_sign(self, sign: Sign) -> bool:
        value = follow(await self.get(sign.path), sign.key)
        return value is not None and (sign.value is None or value == sign.value)

    async def look_up(self, lookups: tuple[Lookup, ...], model: str = "", at: int = 0) -> Any:
        """The first value that is found."""
        for lookup in lookups:
            body = msgspec.json.encode({lookup.asks: model}) if lookup.asks else None
            value = follow(await self.get(lookup.path, body), lookup.key.format(at=at))
            if value is not None:
                return value
        return None

    async def _fetch(self, path: str, body: bytes | None) -> Any:
        method = "GET" if body is None else "POST"
        request = self._session.request(
            method,
            self._root + path,
            data=body,
            # aiohttp tries a GET again whose connection was lost, and no POST: that gets a connection of its own.
            headers=self._headers if body is None else {**self._headers, **CLOSE_CONNECTION},
            timeout=DETECTION_TIMEOUT,
            # The key is for this engine alone.
            allow_redirects=False,
            server_hostname=self._server_name,
        )
        try:
            async with request as response:
                document = await read_document(response, LARGEST_DESCRIPTION) if response.status == 200 else b""
                # Only now: a document that was cut off is no answer.
                self._statuses[path] = response.status
                if 300 <= response.status < 400:
                    self._locations[path] = response.headers.get("Location", "")
                return msgspec.json.decode(document)
        except (ApiError, aiohttp.ClientError, OSError, *UNREADABLE) as reason:
            self.silence = silence_to_words(reason)
            return None


# Why a server does not answer, first match first, for a person. What is not here is an answer that cannot be read.
SILENCE: tuple[tuple[type[BaseException], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "the name of the host is not known"),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not valid"),
    (aiohttp.ClientSSLError, "it does not speak TLS: try http://"),
    (TimeoutError, "no answer in time"),
    (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "its answer was cut off"),
    (aiohttp.ClientResponseError, "it does not answer as an HTTP server does"),
)


def silence_to_words(reason: BaseException) -> str:
    words = next((words for kind, words in SILENCE if isinstance(reason, kind)), None)
    if words is None and isinstance(reason, OSError) and reason.errno is not None:
        words = os.strerror(reason.errno).lower()
    return words or "it does not answer as an engine does"


def follow(value: Any, key: str) -> Any:
    """The value at a path of keys, or None. A key that is no number asks whether a list contains it."""
    for step in key.split("/"):
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, list):
            value = step in value
        elif isinstance(value, dict):
            value = next((member for name, member in value.items() if fnmatchcase(name, step)), None)
        else:
            return None
    return value


async def detect(documents: EngineDocuments, *, lists_models: bool = True) -> DetectedEngine | None:
    """None if nothing there answers like an engine. `lists_models`: one without a list of models is none."""
    listed = await list_models(documents)
    if listed is None:
        if lists_models or documents.status(MODELS) not in NO_LIST:
            return None
        listed = []
    dialect = await _dialect(documents)
    models = [await _model(documents, dialect, model, at) for at, model in listed]
    version = await documents.look_up(dialect.version)
    is_known = isinstance(version, str) and UNKNOWN_VERSION not in version
    return DetectedEngine(dialect, tuple(models), version if is_known else None)


async def list_models(documents: EngineDocuments) -> list[tuple[int, dict[str, Any]]] | None:
    """The models with their index in the list; None if there is no list."""
    listing = await documents.get(MODELS)
    if not isinstance(listing, dict) or not isinstance(listing.get("data"), list):
        return None
    return [
        (at, model) for at, model in enumerate(listing["data"]) if isinstance(model, dict) and isinstance(model.get("id"), str)
    ]


async def _dialect(documents: EngineDocuments) -> Dialect:
    for dialect in KNOWN:
        for sign in dialect.signs:
            if await documents.has_sign(sign):
                return dialect
    return PLAIN


async def _model(documents: EngineDocuments, dialect: Dialect, model: dict[str, Any], at: int) -> Model:
    window = await documents.look_up(dialect.window, model["id"], at)
    vision = await documents.look_up(dialect.vision, model["id"], at)
    parameters = await documents.look_up(dialect.parameters, model["id"], at)
    vocabulary = await documents.look_up(dialect.vocabulary, model["id"], at)
    embedding = await documents.look_up(dialect.embedding, model["id"], at)
    slots = await documents.look_up(dialect.slots, model["id"], at)
    loading_state = await documents.look_up(dialect.loading_state, model["id"], at)
    return Model(
        id=model["id"],
        created=model["created"] if isinstance(model.get("created"), int) else 0,
        owned_by=str(model.get("owned_by") or "engine"),
        window=window if isinstance(window, int) and window > 0 else None,
        parameters=parameters if isinstance(parameters, int) and parameters > 0 else None,
        shape=_shape(parameters, vocabulary, embedding),
        slots=slots if isinstance(slots, int) and slots > 0 else None,
        vision=vision is True,
        loaded=loading_state in (None, LOADED),
    )


def _shape(*counts: Any) -> Shape | None:
    return Shape(*counts) if all(isinstance(count, int) for count in counts) else None


async def find_local_engines(
    session: aiohttp.ClientSession, headers: dict[str, str], *, own_port: int, ports: Mapping[int, str] = WELL_KNOWN_PORTS
) -> list[str]:
    """The addresses of the engines on these ports of this machine. Our own port is not tried."""
    roots = [f"http://127.0.0.1:{port}" for port in ports if port != own_port]
    detected = await asyncio.gather(*(detect(EngineDocuments(session, root, headers)) for root in roots))
    return [root for root, engine in zip(roots, detected, strict=True) if engine is not None]
