"""The gateway that a program uses: the one that is named, one that runs, or one that is started and stopped with it."""

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from antiphon.app.running_gateways import find, local_url
from antiphon.child_processes.child import python_command
from antiphon.cli.clients.process import STOP_TIMEOUT, end
from antiphon.cli.clients.program import CannotStart, Program
from antiphon.cli.gateway_client import GatewayClient, GatewayFailed, key_for, opener_for
from antiphon.cli.gateway_readiness import PATIENCE, wait_until_ready, when_ready
from antiphon.settings.keys import needs_key, plain_key
from antiphon.settings.settings import Settings, data_directory

# Seconds until a gateway that was started here must listen.
LONGEST_START = 120.0
# Seconds after which the user is shown where to look.
NOTICE_AFTER = 3.0
# Seconds between two looks at a gateway that does not answer yet.
INTERVAL = 0.1
UNAUTHORIZED = 401
DEFAULT_PORT = Settings().port
WAITING = "Waiting for an engine; a model may have to be downloaded first. The gateway's log is {log}."
NO_ANSWER = "No gateway answers at {url}. Start one there, or leave out --url: then one that runs is found, or one is started."
SEVERAL = "Several gateways run. {name} uses the newest one, {url}. --url URL chooses another one: {others}."
ELSEWHERE = "{name} uses the gateway at {url}."
NEEDS_KEY = "The gateway at {url} needs a key. Set ANTIPHON_API_KEY to one, then run this again."
WRONG_KEY = "The gateway at {url} does not know the key. Set ANTIPHON_API_KEY to one that it knows, then run this again."
ONLY_HASHES = "The settings have only hashes of keys. Set {variable} to a key, then run this again."


@contextlib.contextmanager
def gateway(program: Program, settings: Settings, file: Path | None, named: str | None) -> Iterator[tuple[str, bool]]:
    """The URL of a gateway. If none runs, one is started, and stopped when the program exits: then it is ours. `file`: has its
    settings. `named`: the URL that the user has given."""
    if (running := running_gateway(program, settings, named)) is not None:
        yield running, False
        return
    with _started_gateway(program, settings, file) as url:
        yield url, True


def running_gateway(program: Program, settings: Settings, named: str | None = None) -> str | None:
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
        typer.echo(said.format(name=program.name, url=found[0], others=", ".join(found[1:])), err=True)
    return next(iter(found), None)


@contextlib.contextmanager
def _started_gateway(program: Program, settings: Settings, file: Path | None) -> Iterator[str]:
    log = data_directory(settings) / f"{program.command}-gateway.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    options = ["--config", str(file)] if file is not None else []
    with log.open("wb") as output:
        # In a session of its own: Ctrl-C in the terminal is for the program.
        process = subprocess.Popen(
            python_command("antiphon", "serve", *options), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield _wait(process, settings, log)
        finally:
            end(process, signal.SIGTERM, settings.shutdown_timeout + STOP_TIMEOUT)


def _wait(process: subprocess.Popen[bytes], settings: Settings, log: Path) -> str:
    """Until it is ready. Returns its URL."""
    began, is_noted = time.monotonic(), False

    def check() -> None:
        nonlocal is_noted
        if process.poll() is not None:
            raise CannotStart(_failed(settings, log))
        if not is_noted and time.monotonic() - began > NOTICE_AFTER:
            is_noted = True
            typer.echo(WAITING.format(log=log), err=True)

    url = _url(process, settings)
    while url is None or not _answers(url):
        check()
        if time.monotonic() - began > LONGEST_START:
            raise CannotStart(_failed(settings, log))
        time.sleep(INTERVAL)
        url = _url(process, settings)
    try:
        # Its engine may be started together with it.
        wait_until_ready(GatewayClient(url, key_for(settings)), check=check, patience=PATIENCE)
    except GatewayFailed as failed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            # If it is about to end, its log says why.
            process.wait(STOP_TIMEOUT if failed.status is None else 0)
        raise CannotStart(_failed(settings, log) if process.poll() is not None else str(failed)) from None
    return url


def _url(process: subprocess.Popen[bytes], settings: Settings) -> str | None:
    """If any port will do, it says itself which one it has."""
    announced = (gateway.url for gateway in find() if gateway.pid == process.pid)
    return local_url(settings.host, settings.port) if settings.port else next(announced, None)


def _failed(settings: Settings, log: Path) -> str:
    at = f" at {local_url(settings.host, settings.port)}" if settings.port else ""
    return f"No gateway runs{at}, and none could be started:\n{log.read_text(encoding='utf-8', errors='replace')}"


def _answers(url: str) -> bool:
    try:
        with opener_for(url).open(url + "/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def client_key(program: Program, settings: Settings) -> str | None:
    """The key that the program sends. None: it needs none."""
    key = plain_key(settings) or os.environ.get(program.key_variable)
    if key is None and needs_key(settings):
        raise CannotStart(ONLY_HASHES.format(variable=program.key_variable))
    return key


def fetch(url: str, path: str, key: str | None) -> Any:
    """What the gateway answers there, once it is ready."""
    client = GatewayClient(url, key or "none")
    try:
        return when_ready(client, lambda: client.get(path))
    except GatewayFailed as failed:
        if failed.status != UNAUTHORIZED:
            raise CannotStart(str(failed)) from None
        reason = NEEDS_KEY if key is None else WRONG_KEY
        raise CannotStart(reason.format(url=url)) from None
