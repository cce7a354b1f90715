"""`antiphon restart`: new worker processes for a running gateway, one after another."""

from collections.abc import Sequence
from urllib.parse import urlsplit

import typer

from antiphon.app.processes.control import CannotControl, restart
from antiphon.app.running_gateways import RunningGateway, find
from antiphon.cli.gateway_client import SEVERAL as CHOSEN
from antiphon.cli.gateway_client import GatewayFailed
from antiphon.settings.settings import Settings

NONE = "no gateway of this user runs here"
NOT_HERE = "no gateway of this user runs at {url}"
SEVERAL = "several gateways run here, and none at port {port} of the settings: choose one with --url. They are at {urls}"
ALONE = (
    "the gateway at {url} is a single process, which cannot be replaced without a pause. Stop it (kill {pid}: responses that "
    "run are finished) and start it again; with --workers 2 or more, it can be restarted like this"
)
LOST = "the gateway at {url} does not answer: {reason}"
ENDED = "the gateway at {url} has ended meanwhile"


def run_restart(settings: Settings, url: str | None) -> int:
    """Returns the exit code: 1 if a worker process could not be replaced."""
    gateway = _choose(settings, url)
    if gateway.control is None:
        raise GatewayFailed(ALONE.format(url=gateway.url, pid=gateway.pid))
    try:
        for step in restart(gateway.control):
            if step.error is not None:
                typer.echo(f"antiphon: not restarted: {step.error}", err=True)
                return 1
            if step.done:
                return 0
            typer.echo(f"worker {step.worker}: replaced, now process {step.pid}")
    except CannotControl as failed:
        raise GatewayFailed(LOST.format(url=gateway.url, reason=failed)) from None
    typer.echo(f"antiphon: {ENDED.format(url=gateway.url)}", err=True)
    return 1


def _choose(settings: Settings, url: str | None) -> RunningGateway:
    """The one that is named; the only one; of several, the one at the port of the settings, as for the other commands."""
    running = find()
    found = running if url is None else _at(urlsplit(url).port, running)
    if not found:
        raise GatewayFailed(NONE if url is None else NOT_HERE.format(url=url))
    if len(found) == 1:
        return found[0]
    configured = _at(settings.port, found)
    if len(configured) != 1:
        raise GatewayFailed(SEVERAL.format(port=settings.port, urls=", ".join(gateway.url for gateway in found)))
    typer.echo(CHOSEN.format(count=len(found), url=configured[0].url), err=True)
    return configured[0]


def _at(port: int | None, gateways: Sequence[RunningGateway]) -> list[RunningGateway]:
    return [gateway for gateway in gateways if urlsplit(gateway.url).port == port]
