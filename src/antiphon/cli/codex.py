"""`antiphon codex`: runs Codex on the gateway, with a configuration in a folder of its own."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer

from antiphon.cli.codex_arguments import named_model
from antiphon.cli.codex_config import KEY_VARIABLE, LEAN_SETTINGS, configuration, known_settings, lean_part
from antiphon.cli.models import better_model
from antiphon.client_keys import needs_key, plain_key
from antiphon.core.help import Help
from antiphon.gateway.codex_catalog import catalog_entry
from antiphon.settings import Settings, data_directory

NO_CODEX = "Codex was not found on the PATH. Install it with `npm install -g @openai/codex`, then run this again."
NO_MODEL = (
    "The engine behind {url} lists no models, so Codex cannot choose one. Load a model into the engine, or start the gateway "
    "with --default-model NAME or ANTIPHON_DEFAULT_MODEL=NAME. Then run this again."
)
# Seconds until a gateway that was started here must have a ready engine. A model may have to be downloaded first.
START_TIMEOUT = 900.0
WAITING = "Waiting for an engine; a model may have to be downloaded first.{reason} The gateway's log is {log}."
# Seconds after which the user is shown what the command is waiting for.
NOTICE_AFTER = 3.0
LEAN = "Codex runs with fewer tools and shorter prompts, because {reason}. `antiphon codex --full` leaves everything on."
NOT_LEAN = (
    "This version of Codex cannot check its settings, so it runs with all of its features, which are many for this model. "
    "Update it with `npm install -g @openai/codex`."
)


class CannotStart(Exception):
    """Codex cannot run. The message says why, and what to do about it."""


def run_codex(settings: Settings, arguments: Sequence[str], *, show: bool, full: bool = False, file: Path | None = None) -> int:
    """Returns Codex's exit code. `full`: Codex keeps all of its features, whatever the model is. `file`: has the settings."""
    binary = shutil.which("codex")
    if binary is None and not show:
        raise CannotStart(NO_CODEX)
    with gateway(settings, file) as (url, is_ours):
        home = data_directory(settings) / "codex"
        home.mkdir(parents=True, exist_ok=True)
        listing = fetch(url + "/v1/models", settings)
        if not listing["models"]:
            raise CannotStart(NO_MODEL.format(url=url))
        catalog = home / "models.json"
        helped = listing.get("antiphon_help", {})
        models = [_full_entry(entry, helped) for entry in listing["models"]] if full else listing["models"]
        catalog.write_bytes(msgspec.json.format(msgspec.json.encode({"models": models})))
        model = models[0]["slug"]
        named = named_model(arguments)
        # If the catalog does not have it, the first one answers for it.
        chosen = named if named is not None and any(entry["slug"] == named for entry in models) else model
        help = helped.get(chosen, {})
        lean = _lean(binary, help["reason"]) if help.get("lean_codex") and not full else ""
        config = configuration(url, model, catalog, has_key=needs_key(settings), lean=lean)
        if show:
            typer.echo(config, nl=False)
            return 0
        (home / "config.toml").write_text(config, encoding="utf-8")
        if lean:
            typer.echo(LEAN.format(reason=help["reason"]), err=True)
        if is_ours and (better := _better_model(settings, chosen)) is not None:
            typer.echo(better, err=True)
        environment = os.environ | {"CODEX_HOME": str(home), KEY_VARIABLE: _key(settings)}
        assert binary is not None
        # Ctrl-C is for Codex: it must not end this process first.
        with contextlib.suppress(KeyboardInterrupt):
            return subprocess.run([binary, *arguments], env=environment).returncode
        return 130


def _lean(binary: str | None, reason: str) -> str:
    """The part of the configuration that makes Codex lean."""
    settings = known_settings(binary) if binary is not None else LEAN_SETTINGS
    if not settings:
        typer.echo(NOT_LEAN, err=True)
        return ""
    return lean_part(reason, settings)


def _full_entry(entry: dict[str, Any], helped: dict[str, Any]) -> dict[str, Any]:
    """A model's entry in the catalog if Codex is not lean. The instructions still fit the tools that the model is offered."""
    name, window, vision = entry["slug"], entry["context_window"], "image" in entry["input_modalities"]
    help = Help(easier_tools=helped.get(name, {}).get("easier_tools", False))
    return catalog_entry(name, window=window, vision=vision, help=help)


def _better_model(settings: Settings, model: str) -> str | None:
    """The line of the gateway about it, which goes to its log here. Without an embedded engine, there is none."""
    can_be_embedded = settings.model is not None or not settings.upstream
    return better_model(settings, model) if can_be_embedded else None


@contextlib.contextmanager
def gateway(settings: Settings, file: Path | None) -> Iterator[tuple[str, bool]]:
    """The URL of the running gateway. If none runs, one is started, and stopped when Codex exits: then it is ours."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    url = f"http://{host}:{settings.port}"
    if _answers(url):
        yield url, False
        return
    log = data_directory(settings) / "codex-gateway.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    options = ["--config", str(file)] if file is not None else []
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "antiphon", "serve", *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait(process, url, log)
            yield url, True
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    began, shown = time.monotonic(), None
    while (reason := _why_not_ready(url)) is not None:
        waited = time.monotonic() - began
        if process.poll() is not None or waited > START_TIMEOUT:
            raise CannotStart(
                f"No gateway runs at {url}, and none could be started:\n{log.read_text(encoding='utf-8', errors='replace')}"
            )
        if waited > NOTICE_AFTER and reason != shown:
            typer.echo(WAITING.format(reason=f" {reason}" if reason else "", log=log), err=True)
            shown = reason
        time.sleep(0.1)


def _why_not_ready(url: str) -> str | None:
    """What the gateway says about its engines, or nothing if it does not answer yet. None: it is ready."""
    try:
        with urllib.request.urlopen(url + "/ready", timeout=2):
            return None
    except urllib.error.HTTPError as answer:
        with contextlib.suppress(msgspec.DecodeError, LookupError, TypeError):
            return str(msgspec.json.decode(answer.read())["error"]["message"])
    except (urllib.error.URLError, OSError, ValueError):
        pass
    return ""


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _key(settings: Settings) -> str:
    key = plain_key(settings) or os.environ.get(KEY_VARIABLE)
    if key is None and needs_key(settings):
        raise CannotStart(f"The settings have only hashes of keys. Set {KEY_VARIABLE} to a key, then run this again.")
    return key or "none"


def fetch(address: str, settings: Settings) -> Any:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {_key(settings)}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return msgspec.json.decode(answer.read())
    except (urllib.error.URLError, OSError) as failed:
        raise CannotStart(f"The gateway gave no valid answer at {address}: {failed}") from None
