"""`antiphon ps`: the gateways that run, their engines and models, and the responses in flight."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import typer
from rich.live import Live
from rich.text import Text

from antiphon.app.running_gateways import find
from antiphon.cli.gateway_client import NONE_RUNS, GatewayClient, GatewayFailed, choose_gateway, key_for
from antiphon.logs import printable
from antiphon.settings.settings import Settings

# Seconds between two looks.
INTERVAL = 1.0
MAX_MODELS_SHOWN = 20
ADMIN_KEY_NOT_SENT = " The admin key is sent only to a gateway that was started by this user, or is named with --url."
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
INDENT = "  "
# Seconds after the start of a gateway until which its first worker processes have started.
STARTS_WITHIN = 10.0


def run_ps(settings: Settings, url: str | None, *, watch: bool, as_json: bool) -> int:
    """Returns the exit code: 1 if no gateway runs, or none says how it is."""
    if watch:
        _watch(settings, url)
        return 0
    found = look(settings, url)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode({"gateways": found})).decode())
    else:
        typer.echo("\n".join(lines(found, time.time())))
    return 0 if any("error" not in each for each in found) else 1


def _watch(settings: Settings, url: str | None) -> None:
    """Until Ctrl-C. Where nobody can see it change, each look follows the one before it."""
    try:
        with Live(screen=True, auto_refresh=False) if sys.stdout.isatty() else NoScreen() as screen:
            while True:
                shown = "\n".join(lines(look(settings, url), time.time()))
                screen.update(Text(shown), refresh=True)
                time.sleep(INTERVAL)
    except KeyboardInterrupt:
        pass


class NoScreen:
    def __enter__(self) -> "NoScreen":
        return self

    def __exit__(self, *error: object) -> None: ...

    def update(self, shown: Text, *, refresh: bool) -> None:
        typer.echo(f"{shown}\n")


def look(settings: Settings, url: str | None) -> list[dict[str, Any]]:
    """What each gateway says of itself, or why it does not."""
    urls = [gateway.url for gateway in find()] if url is None else []
    # What merely answers at the address of the settings may be another program, even another user's.
    is_trusted = url is not None or bool(urls)
    if not urls:
        try:
            urls = [choose_gateway(settings, url)]
        except GatewayFailed:
            return []
    key = key_for(settings, admin=is_trusted)
    hint = "" if key == key_for(settings, admin=True) else ADMIN_KEY_NOT_SENT
    return [_ask(GatewayClient(each, key), hint) for each in urls]


def _ask(client: GatewayClient, hint: str) -> dict[str, Any]:
    """`hint`: what is added where the gateway needs a key."""
    try:
        found: dict[str, Any] = client.get("/inspector/engines")
        # As it is reached from here.
        found["gateway"]["url"] = client.url
        return found
    except GatewayFailed as failed:
        return {"gateway": {"url": client.url}, "error": f"{failed}{hint if failed.status == 401 else ''}"}


# ---- as text ---------------------------------------------------------------------------------------------------------


def lines(gateways: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    if not gateways:
        return [NONE_RUNS[0].upper() + NONE_RUNS[1:]]
    return [printable(line) for gateway in gateways for line in _gateway(gateway, now)]


def _gateway(found: Mapping[str, Any], now: float) -> Iterator[str]:
    gateway = found["gateway"]
    if "error" in found:
        # Most errors name the address themselves.
        yield found["error"] if gateway["url"] in found["error"] else f"{gateway['url']}: {found['error']}"
        return
    process = [f"process {gateway['pid']}"] if gateway["pid"] is not None else []
    workers = gateway.get("workers") or ()
    processes = [f"{len(workers)} workers ({', '.join(str(each['pid']) for each in workers)})"] if workers else []
    facts = [f"antiphon {gateway['version']}", *process, *processes, *_uptime(gateway, now)]
    yield f"{gateway['url']}: {', '.join([*facts, 'store ' + gateway['store']])}"
    for engine in found["engines"]:
        yield from (INDENT + line for line in _engine(engine))
    running = found["running"]
    yield f"{INDENT}{len(running)} response{'' if len(running) == 1 else 's'} in flight"
    yield from (2 * INDENT + line for line in columns([_run(run) for run in running]))


def _uptime(gateway: Mapping[str, Any], now: float) -> Iterator[str]:
    """Of the gateway; and of its newest worker process, if that was replaced. An older gateway does not say when."""
    yield f"up {duration(now - gateway['started'])}"
    newest = max((each.get("started") or 0 for each in gateway.get("workers") or ()), default=0)
    if newest - gateway["started"] > STARTS_WITHIN:
        yield f"newest worker up {duration(now - newest)}"


def _engine(engine: Mapping[str, Any]) -> Iterator[str]:
    name = " ".join(part for part in (engine["dialect"], engine["version"]) if part)
    kind = f"embedded {name}" if engine["embedded"] else name
    if not engine["ready"]:
        yield f"{kind} at {engine['url']}: not ready, {engine['why_not']}"
        return
    yield f"{kind} at {engine['url']}: {', '.join(_business(engine))}"
    models = engine["models"]
    yield from (INDENT + line for line in columns([_model(model) for model in models[:MAX_MODELS_SHOWN]]))
    if len(models) > MAX_MODELS_SHOWN:
        yield f"{INDENT}and {len(models) - MAX_MODELS_SHOWN} more models"
    if engine["any_model"]:
        yield f"{INDENT}any model that a request names"


def _business(engine: Mapping[str, Any]) -> Iterator[str]:
    """An older gateway reports neither its health nor what it says of itself."""
    yield f"{engine['running']} running"
    yield f"{engine['waiting']} waiting"
    if (reported := engine.get("reported")) is not None:
        yield f"by its own count {reported['running']} running and {reported['waiting']} waiting"
        if reported["cache_usage"] is not None:
            yield f"{reported['cache_usage']:.0%} of its cache in use"
    if engine.get("unhealthy"):
        yield f"not healthy: {engine['unhealthy']}"


def _model(model: Mapping[str, Any]) -> list[str]:
    facts = [
        f"{model['window']} tokens" if model["window"] else None,
        f"{model['slots']} slots" if model["slots"] else None,
        "images" if model["vision"] else None,
        f"helped, because {model['help']['reason']}" if model["help"] else None,
    ]
    return [model["id"], ", ".join(fact for fact in facts if fact is not None)]


def _run(run: Mapping[str, Any]) -> list[str]:
    # The id is long, and comes last: a narrow terminal breaks the line there.
    return [run["model"], run["channel"], run["owner"] or "", f"{run['seconds']:.1f} s", run["state"], run["id"]]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that nobody has anything in are left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width).rstrip() for row in rows]


def duration(seconds: float) -> str:
    """The two largest units: 2 h 5 min"""
    parts: list[str] = []
    rest = max(0, int(seconds))
    for size, name in UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "0 s"
