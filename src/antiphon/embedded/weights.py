"""Resolves `--model` to a model file: a packaged model's name, a path, or a file on the Hugging Face hub."""

from dataclasses import dataclass
from pathlib import Path

from antiphon.core.sampling import ENGINE_DEFAULT, Sampling
from antiphon.embedded import CannotEmbed
from antiphon.embedded.gguf_header import GgufHeader, read_header
from antiphon.embedded.hub import FORM, PREFIX, fetch_from_hub
from antiphon.embedded.packaged_models import SMOLLM2, fetch

DEFAULT_MODEL = SMOLLM2.name
PACKAGED = {SMOLLM2.name: SMOLLM2}


@dataclass(frozen=True, slots=True)
class Weights:
    path: Path
    # The model's name in the API.
    alias: str
    header: GgufHeader


def alias_of(model: str) -> str:
    return model if model in PACKAGED else Path(model.removeprefix(PREFIX)).stem


def sampling_of(model: str) -> Sampling:
    return PACKAGED[model].sampling if model in PACKAGED else ENGINE_DEFAULT


async def find_weights(model: str, folder: Path) -> Weights:
    """Downloads the model into the folder first, if necessary."""
    if model in PACKAGED:
        path = await fetch(PACKAGED[model], folder)
    elif model.startswith(PREFIX):
        path = await fetch_from_hub(model)
    else:
        path = _file(model)
    return Weights(path, alias_of(model), read_header(path))


def _file(model: str) -> Path:
    path = Path(model).expanduser()
    if not path.is_file():
        names = ", ".join(PACKAGED)
        raise CannotEmbed(f"there is no model {model}: --model must be one of {names}, PATH.gguf, {FORM}")
    return path.absolute()
