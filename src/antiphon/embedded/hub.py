"""A model file of the Hugging Face hub, through its own library and into its own cache.

Run as a script, with a repository and a file, this module is the process that fetches: a download in a thread could not be
stopped. The library shows its progress itself.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path

from antiphon.embedded import CannotEmbed

PREFIX = "hf:"
FORM = f"{PREFIX}OWNER/NAME/FILE.gguf"
NO_HUB = "a model of the Hugging Face hub needs the package huggingface_hub: pip install 'antiphon[hf]'"


async def fetch_from_hub(model: str) -> Path:
    owner, _, rest = model.removeprefix(PREFIX).partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise CannotEmbed(f"{model} is not {FORM}")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise CannotEmbed(NO_HUB)
    command = [sys.executable, "-m", "antiphon.embedded.hub", f"{owner}/{repository}", file]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        out, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    said = out.decode(errors="replace").strip()
    if process.returncode != 0:
        raise CannotEmbed(f"{model} could not be fetched: {said or f'it ended with {process.returncode}'}")
    return Path(said)


def main() -> int:
    """Writes the path of the file, or what is against it."""
    from huggingface_hub import hf_hub_download

    try:
        answer, code = hf_hub_download(*sys.argv[1:3]), 0
    except Exception as failed:
        # Whatever it is, the process that asked is to tell it.
        answer, code = f"{type(failed).__name__}: {failed}", 1
    sys.stdout.write(answer)
    return code


if __name__ == "__main__":
    sys.exit(main())
