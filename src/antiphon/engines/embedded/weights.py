"""Resolves `--model` to a model file: a model's name, a path, or a file on the Hugging Face hub."""

import difflib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from antiphon.core.knowledge.known_weights import KnownWeights
from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.gguf_header import GgufHeader, check_start, read_header
from antiphon.engines.embedded.hub import FORM, PREFIX, fetch_from_hub, parse_hub_name
from antiphon.engines.embedded.named_models import BY_NAME
from antiphon.engines.embedded.progress import ShowProgress, show_progress
from antiphon.engines.embedded.pulled_models import fetch, log_line

# ---- Chooses the chat template of a model: its own, or ours if its own does not support tools ------------------------

CHATML_START = "<|im_start|>"


def template_for(header: GgufHeader) -> str | None:
    """None: the model's own. Ours is ChatML with tools, so only a ChatML model without tools gets it."""
    own = header.chat_template or ""
    if "tools" in own or (CHATML_START not in own and CHATML_START not in header.tokens):
        return None
    return files("antiphon.engines.embedded").joinpath("chatml_tools.jinja").read_text(encoding="utf-8")


class Weights(Struct, frozen=True):
    path: Path
    # The model's name in the API.
    alias: str
    header: GgufHeader


def alias_of(model: str) -> str:
    return model if model in BY_NAME else Path(model.removeprefix(PREFIX)).stem


def known_weights_of(model: str) -> KnownWeights | None:
    """What is known of the model before it is loaded: its weights are recognised then, whatever its name is."""
    return BY_NAME[model].weights if model in BY_NAME else None


def check_model(model: str) -> None:
    """Raises CannotEmbed for a model that `find_weights` will not find, as far as that can be seen without a download."""
    if model.startswith(PREFIX):
        parse_hub_name(model)
    elif model not in BY_NAME:
        check_start(_file(model))


async def find_weights(
    model: str, folder: Path, notify: Callable[[str], None] = log_line, show: ShowProgress = show_progress
) -> Weights:
    """Downloads the model into the folder first, if necessary. `notify` gets a line about each source that fails."""
    if model in BY_NAME:
        path = await fetch(BY_NAME[model], folder, notify=notify, show=show)
    elif model.startswith(PREFIX):
        path = await fetch_from_hub(model, show)
    else:
        path = _file(model)
    return Weights(path, alias_of(model), read_header(path))


def _file(model: str) -> Path:
    path = Path(model).expanduser()
    if not path.is_file():
        if path.suffix.lower() == ".gguf":
            raise CannotEmbed(f"there is no file {model}{' in ' + str(Path.cwd()) if not path.is_absolute() else ''}")
        close = difflib.get_close_matches(model.lower(), BY_NAME, n=2)
        meant = f" Did you mean {' or '.join(close)}?" if close else ""
        names = ", ".join(BY_NAME)
        raise CannotEmbed(f"there is no model {model}.{meant} A model is PATH.gguf, {FORM}, or one of these names: {names}")
    return path.absolute()
