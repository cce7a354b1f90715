"""The process that uses the library of the Hugging Face hub. Its arguments are an action, a repository, a file and, to
download into it, a folder."""

import signal
import sys
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

# Seconds until the hub must answer a question about a file.
ANSWER_TIMEOUT = 10.0


class HubAddress(Struct, frozen=True):
    """Where the hub has a file now. The address is valid for a while only."""

    url: str
    # Identifies the content.
    tag: str


def main(arguments: Sequence[str]) -> int:
    """Writes the result, or the error in one line, to standard output."""
    # Ctrl-C ends this process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        output, code = ACTIONS[arguments[0]](*arguments[1:]), 0
    except Exception as failed:
        # The parent process reports the error, whatever it is.
        output, code = " ".join(f"{type(failed).__name__}: {failed}".split()), 1
    sys.stdout.write(output)
    return code


def find(repository: str, file: str) -> str:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    # Without its retries: an absent hub is reported at once.
    found = get_hf_file_metadata(hf_hub_url(repository, file), timeout=ANSWER_TIMEOUT)
    return msgspec.json.encode(HubAddress(found.location, found.etag or found.location)).decode()


def download(repository: str, file: str, folder: str | None = None) -> str:
    """The library shows its own progress."""
    from huggingface_hub import hf_hub_download

    try:
        find(repository, file)
    except Exception as failed:
        # The hub is out of reach, or it refuses, but the file may have been downloaded earlier.
        try:
            return hf_hub_download(repository, file, local_dir=folder, local_files_only=True)
        except Exception:
            raise failed from None
    return hf_hub_download(repository, file, local_dir=folder)


ACTIONS: dict[str, Callable[..., str]] = {"find": find, "download": download}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
