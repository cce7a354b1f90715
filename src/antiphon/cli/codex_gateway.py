"""The gateway that Codex uses: the one that is named, one that runs, or one that is started and stopped with Codex."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer

from antiphon.cli.codex_config import KEY_VARIABLE
from antiphon.cli.codex_process import STOP_TIMEOUT, end
from antiphon.cli.gateway_client import opener_for
from antiphon.client_keys import needs_key, plain_key
from antiphon.running_gateways import find, local_url
from antiphon.settings import Settings, data_directory

# Seconds until a gateway that was started here must have a ready engine. A model may have to be downloaded first.
START_TIMEOUT = 900.0
# Seconds after which the user is shown what the command is waiting for.
NOTICE_AFTER = 3.0
DEFAULT_PORT = Settings().port
WAITING = "Waiting for an engine; a model may have to be downloaded first.{reason} The gateway's log is {log}."
NO_ANSWER = "No gateway answers at {url}. Start one there, or leave out --url: then one that runs is found, or one is started."
SEVERAL = "Several gateways run. Codex uses the newest one, {url}. --url URL chooses another one: {others}."
ELSEWHERE = "Codex uses the gateway at {url}."
NEEDS_KEY = "The gateway at {url} needs a key. Set {variable} to one, then run this again."
ONLY_HASHES = f"The settings have only hashes of keys. Set {KEY_VARIABLE} to a key, then run this again."


class CannotStart(Exception):
    """Codex cannot run. The message says why, and what to do about it."""


@contextlib.contextmanager
def gateway(settings: Settings, file: Path | None, named: str | None) -> Iterator[tuple[str, bool]]:
    """The URL of a gateway. If none runs, one is started, and stopped when Codex exits: then it is ours. `file`: has its
    settings. `named`: the URL that the user has given."""
    if (running := running_gateway(settings, named)) is not None:
        yield running, False
        return
    with _started_gateway(settings, file) as url:
        yield url, True


def running_gateway(settings: Settings, named: str | None = None) -> str | None:
    """The one that is named; else the one at the address in the settings; else, if they leave the port open, the newest."""
    if named is not None:
        url = named.rstrip("/").removesuffix("/v1")
        if not _answers(url):
            raise CannotStart(NO_ANSWER.format(url=url))
        return url
    if settings.port and _answers(url := local_url(settings.host, settings.port)):
        return url
    if settings.port not in (0, DEFAULT_PORT):
        return None
    found = [gateway.url for gateway in find() if _answers(gateway.url)]
    if found:
        said = SEVERAL if len(found) > 1 else ELSEWHERE
        typer.echo(said.format(url=found[0], others=", ".join(found[1:])), err=True)
    return next(iter(found), None)


@contextlib.contextmanager
def _started_gateway(settings: Settings, file: Path | None) -> Iterator[str]:
    log = data_directory(settings) / "codex-gateway.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    options = ["--config", str(file)] if file is not None else []
    with log.open("wb") as output:
        # In a session of its own: Ctrl-C in the terminal is for Codex.
        process = subprocess.Popen(
            [sys.executable, "-m", "antiphon", "serve", *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield _wait(process, settings, log)
        finally:
            end(process, signal.SIGTERM, settings.shutdown_timeout + STOP_TIMEOUT)


def _wait(process: subprocess.Popen[bytes], settings: Settings, log: Path) -> str:
    """Until it is ready. Returns its URL."""
    began, shown = time.monotonic(), None
    while True:
        # If any port will do, it says itself which one it has.
        announced = (gateway.url for gateway in find() if gateway.pid == process.pid)
        url = local_url(settings.host, settings.port) if settings.port else next(announced, None)
        reason = _why_not_ready(url) if url is not None else ""
        if url is not None and reason is None:
            return url
        waited = time.monotonic() - began
        if process.poll() is not None or waited > START_TIMEOUT:
            at = f" at {url}" if url is not None else ""
            said = log.read_text(encoding="utf-8", errors="replace")
            raise CannotStart(f"No gateway runs{at}, and none could be started:\n{said}")
        if waited > NOTICE_AFTER and reason != shown:
            typer.echo(WAITING.format(reason=f" {reason}" if reason else "", log=log), err=True)
            shown = reason
        time.sleep(0.1)


def _why_not_ready(url: str) -> str | None:
    """What the gateway says about its engines, or nothing if it does not answer yet. None: it is ready."""
    try:
        with opener_for(url).open(url + "/ready", timeout=2):
            return None
    except urllib.error.HTTPError as answer:
        with contextlib.suppress(msgspec.DecodeError, LookupError, TypeError):
            return str(msgspec.json.decode(answer.read())["error"]["message"])
    except (urllib.error.URLError, OSError, ValueError):
        pass
    return ""


def _answers(url: str) -> bool:
    try:
        with opener_for(url).open(url + "/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def client_key(settings: Settings) -> str | None:
    """The key that Codex sends. None: it needs none."""
    key = plain_key(settings) or os.environ.get(KEY_VARIABLE)
    if key is None and needs_key(settings):
        raise CannotStart(ONLY_HASHES)
    return key


def fetch(url: str, path: str, key: str | None) -> Any:
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {key or 'none'}"})
    try:
        with opener_for(url).open(request, timeout=30) as answer:
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, OSError, msgspec.DecodeError) as failed:
        if isinstance(failed, urllib.error.HTTPError) and failed.code == 401:
            raise CannotStart(NEEDS_KEY.format(url=url, variable=KEY_VARIABLE)) from None
        raise CannotStart(f"The gateway gave no valid answer at {url}{path}: {failed}") from None
