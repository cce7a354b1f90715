"""A gateway as the other commands see it: which one they mean, and how they ask it."""

import contextlib
import ipaddress
import os
import urllib.error
import urllib.request
from collections.abc import Generator, Iterable, Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import msgspec
import typer

from antiphon.app.running_gateways import find, local_url
from antiphon.core.stream.frames import FrameReader
from antiphon.errors import UNREADABLE
from antiphon.settings.errors import SettingsError, wrong_address
from antiphon.settings.keys import HASHED, plain_key
from antiphon.settings.settings import Settings

KEY_VARIABLE = "ANTIPHON_CODEX_KEY"


NONE_RUNS = "no gateway is running. Start one with `antiphon`, and run this again; or name one with --url."
SEVERAL = "{count} gateways are running. This is about {url}; --url names another one."
NEEDS_KEY = (
    "The gateway at {url} needs a key. Set ANTIPHON_API_KEY to one (`antiphon key new NAME` makes one, on the machine of the "
    "gateway), or name the file of its settings with --config."
)
WRONG_KEY = (
    "The gateway at {url} does not know the key. Set ANTIPHON_API_KEY to one that it knows (`antiphon key new NAME` makes one, "
    "on the machine of the gateway), or name the file of its settings with --config."
)
NO_GATEWAY = "What answers at {url} is not a gateway, or an older one."
NO_ANSWER = "The gateway at {url} does not answer: {reason}"
CUT_OFF = "The gateway at {url} closed the connection in the middle of its answer."
# A gateway that has nothing to say sends a sign of life more often than this, in seconds.
SILENCE = 300.0
PIECE = 64 * 1024
DONE = b"[DONE]"
NO_HEADERS: Mapping[str, str] = {}


class GatewayFailed(Exception):
    """The gateway did not do what it was asked for. The message is for a person. `status`: None if it gave no answer. `answer`:
    what it said, if that is JSON."""

    def __init__(self, message: str, status: int | None = None, answer: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer


def choose_gateway(settings: Settings, url: str | None) -> str:
    """The one that is named; else the one at the address of the settings; else the newest. Raises GatewayFailed."""
    if url is not None:
        if (wrong := wrong_address(url)) is not None:
            raise SettingsError(f"--url {wrong.problem}.{wrong.hint}")
        return url.rstrip("/").removesuffix("/v1")
    running, configured = [gateway.url for gateway in find()], local_url(settings.host, settings.port)
    if configured in running or (not running and _answers(configured)):
        chosen = configured
    elif running:
        chosen = running[0]
    else:
        raise GatewayFailed(NONE_RUNS)
    if len(running) > 1:
        typer.echo(SEVERAL.format(count=len(running), url=chosen), err=True)
    return chosen


def key_for(settings: Settings, *, admin: bool = False) -> str | None:
    """A key of the settings or the environment. `admin`: rather one that sees what all others do."""
    admins = [key for key in settings.admin_key if admin and not key.startswith(HASHED)]
    return next(iter(admins), None) or plain_key(settings) or os.environ.get(KEY_VARIABLE)


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """A proxy cannot reach this machine."""
    handlers = [urllib.request.ProxyHandler({})] if is_local(url) else []
    return urllib.request.build_opener(*handlers)


class GatewayClient:
    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        # What the last stream said about what was changed or left out.
        self.notice: str | None = None
        self._has_key = bool(key)
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._opener = opener_for(url)

    def get(self, path: str, timeout: float = SILENCE) -> Any:
        with self._opened(path, timeout=timeout) as answer, self._errors_translated():
            return msgspec.json.decode(answer.read())

    def member(self, path: str, name: str) -> Any:
        """One member of what is answered there."""
        found = self.get(path)
        if not isinstance(found, dict) or name not in found:
            raise GatewayFailed(NO_GATEWAY.format(url=self.url))
        return found[name]

    def send(self, path: str, body: bytes | Iterable[bytes], headers: Mapping[str, str] = NO_HEADERS) -> Any:
        """`headers`: beside those of every request; of a body in pieces, its length."""
        with self._opened(path, body, headers=headers) as answer, self._errors_translated():
            return msgspec.json.decode(answer.read())

    def pieces(self, path: str) -> Iterator[bytes]:
        """What is there, as it comes."""
        with self._opened(path) as answer:
            while True:
                with self._errors_translated():
                    piece = answer.read1(PIECE)
                if not piece:
                    return
                yield piece

    def stream(self, path: str, body: dict[str, Any]) -> Generator[dict[str, Any]]:
        """The events of a streamed answer. A caller that closes the generator ends the engine's work."""
        frames = FrameReader()
        with self._opened(path, msgspec.json.encode(body)) as answer:
            self.notice = answer.headers.get("antiphon-notice")
            while True:
                with self._errors_translated():
                    data = answer.read1(PIECE)
                    read = frames.receive(data) if data else frames.close()
                    events = [msgspec.json.decode(frame) for frame in read if frame.strip() != DONE]
                yield from events
                if not data:
                    return

    @contextlib.contextmanager
    def _opened(
        self,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        timeout: float = SILENCE,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Iterator[HTTPResponse]:
        request = urllib.request.Request(self.url + path, body, {**self._headers, **headers})
        with self._errors_translated():
            answer = self._opener.open(request, timeout=timeout)
        with answer:
            yield answer

    @contextlib.contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except urllib.error.HTTPError as refused:
            answer = _body(refused)
            raise GatewayFailed(self._refusal(refused.code, answer), refused.code, answer) from None
        except urllib.error.URLError as failed:
            raise GatewayFailed(NO_ANSWER.format(url=self.url, reason=_words(failed.reason))) from None
        except HTTPException:
            raise GatewayFailed(CUT_OFF.format(url=self.url)) from None
        except OSError as failed:
            raise GatewayFailed(NO_ANSWER.format(url=self.url, reason=_words(failed))) from None
        except UNREADABLE:
            raise GatewayFailed(NO_GATEWAY.format(url=self.url)) from None

    def _refusal(self, status: int, answer: Any) -> str:
        """What the answer to a refused request says."""
        if status == 401:
            return (WRONG_KEY if self._has_key else NEEDS_KEY).format(url=self.url)
        with contextlib.suppress(LookupError, TypeError):
            return str(answer["error"]["message"])
        return NO_GATEWAY.format(url=self.url)


def _body(refused: urllib.error.HTTPError) -> Any:
    """None: it is no JSON."""
    with refused, contextlib.suppress(*UNREADABLE, OSError, HTTPException):
        return msgspec.json.decode(refused.read())
    return None


def _answers(url: str) -> bool:
    with contextlib.suppress(GatewayFailed):
        return bool(GatewayClient(url, None).get("/health") == {"status": "ok"})
    return False


def is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _words(reason: object) -> str:
    """Without the number of an error."""
    return str(getattr(reason, "strerror", None) or reason).lower() or type(reason).__name__
