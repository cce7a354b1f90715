"""Downloads a model file from the Hugging Face hub, with the hub's own library and into its cache.

Run as a script, with a repository and a file name, this module is the process that downloads: a download in a thread could
not be stopped. The library shows its own progress.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path

from antiphon.embedded import CannotEmbed

PREFIX = "hf:"
FORM = f"{PREFIX}OWNER/NAME/FILE.gguf"
NO_HUB = "a model from the Hugging Face hub needs the package huggingface_hub. Install it with: pip install 'antiphon[hf]'"


async def fetch_from_hub(model: str) -> Path:
    owner, _, rest = model.removeprefix(PREFIX).partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise CannotEmbed(f"a model from the Hugging Face hub is written {FORM}, not {model}")
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
    output = out.decode(errors="replace").strip()
    if process.returncode != 0:
        raise CannotEmbed(f"{model} could not be downloaded: {output or f'exit code {process.returncode}'}")
    return Path(output)


def main() -> int:
    """Writes the path of the file, or the error, to standard output."""
    from huggingface_hub import hf_hub_download

    try:
        output, code = hf_hub_download(*sys.argv[1:3]), 0
    except Exception as failed:
        # The parent process reports the error, whatever it is.
        output, code = f"{type(failed).__name__}: {failed}", 1
    sys.stdout.write(output)
    return code


if __name__ == "__main__":
    sys.exit(main())
