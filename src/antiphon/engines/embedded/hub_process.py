"""The process that uses the library of the Hugging Face hub. Its arguments are an action, a repository, a file and, to
download into it, a folder."""

import inspect
import io
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

# A line about a download: how many bytes have arrived, of how many.
REPORTED = re.compile(r"(\d+) of (\d+)")
# Seconds until the hub must answer a question about a file.
ANSWER_TIMEOUT = 10.0


class HubAddress(Struct, frozen=True):
    """Where the hub has a file now. The address is valid for a while only."""

    url: str
    # Identifies the content.
    tag: str


def main(arguments: Sequence[str]) -> int:
    """Writes the progress, and in the last line the result or the error, to standard output."""
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
    from huggingface_hub import hf_hub_download

    try:
        find(repository, file)
    except Exception as failed:
        # The hub is out of reach, or it refuses, but the file may have been downloaded earlier.
        try:
            return hf_hub_download(repository, file, local_dir=folder, local_files_only=True)
        except Exception:
            raise failed from None
    # An older library shows its own bar.
    can_report = "tqdm_class" in inspect.signature(hf_hub_download).parameters
    reporting: dict[str, Any] = {"tqdm_class": _reporting_bar()} if can_report else {}
    path: str = hf_hub_download(repository, file, local_dir=folder, **reporting)
    return path


class Nowhere(io.StringIO):
    """Keeps nothing of what is written."""

    def write(self, text: str) -> int:
        return len(text)


def _reporting_bar() -> type:
    """The library's own bar, which is shown to nobody, and reports what it would show."""
    from huggingface_hub import utils

    base: Any = utils.tqdm  # type: ignore[attr-defined, unused-ignore]

    class ReportingBar(base):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options | {"file": Nowhere(), "disable": False})

        def update(self, n: float | None = 1) -> bool | None:
            shown: bool | None = super().update(n)
            if self.total:
                sys.stdout.write(f"{int(self.n)} of {int(self.total)}\n")
                sys.stdout.flush()
            return shown

    return ReportingBar


ACTIONS: dict[str, Callable[..., str]] = {"find": find, "download": download}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
