"""What came of running code: its outputs as the API shows them, and its text for the model."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from antiphon.core.toolbox.tools import ToolResult

Output = dict[str, Any]

# Where the files of a container are, as code sees them; and how the model links them.
FOLDER = "/mnt/data/"
LINK = f"sandbox:{FOLDER}"

NO_OUTPUT = "(no output)"
IMAGE = "(an image was drawn)"
FILES = "Files that were written. Link one in your answer like this: [{name}]({link})"
MOST_NAMES = 20
MORE = "and {count} more"


class CodeFile(Struct, frozen=True):
    """A file of a container. `name`: its path below the folder."""

    id: str
    name: str


# By the ids of containers.
NO_FILES: Mapping[str, Sequence[CodeFile]] = {}


class CodeData(Struct, frozen=True):
    """`images`: as data URLs. `files`: all of the container, which may be linked. `written`: the names of those that this run
    has made or changed."""

    container_id: str
    logs: str = ""
    images: list[str] = []
    files: list[CodeFile] = []
    written: list[str] = []


def data_to_outputs(data: CodeData) -> list[Output]:
    logs = [{"type": "logs", "logs": data.logs}] if data.logs else []
    return [*logs, *({"type": "image", "url": url} for url in data.images)]


def data_to_result(data: CodeData, *, failed: bool = False) -> ToolResult:
    parts = [outputs_to_text(data_to_outputs(data)), *([_written(data.written)] if data.written else ())]
    return ToolResult("\n\n".join(parts), failed=failed, data=data)


def outputs_to_text(outputs: Sequence[Any]) -> str:
    """As the model sees them, also when their item comes back."""
    kinds = [each for each in outputs if isinstance(each, dict)]
    texts = [each["logs"] for each in kinds if each.get("type") == "logs" and isinstance(each.get("logs"), str)]
    images = [IMAGE for each in kinds if each.get("type") == "image"]
    return "\n".join(text for text in (*texts, *images) if text) or NO_OUTPUT


def _written(names: Sequence[str]) -> str:
    shown = [*names[:MOST_NAMES], *([MORE.format(count=len(names) - MOST_NAMES)] if len(names) > MOST_NAMES else ())]
    return "\n".join([FILES.format(name=names[0], link=LINK + quote(names[0])), *(f"- {name}" for name in shown)])


def data_of(result: ToolResult | None) -> CodeData | None:
    """None: the call failed before there was anything."""
    data = result.data if result is not None else None
    # Read from a recording, it is plain.
    return data if data is None or isinstance(data, CodeData) else msgspec.convert(data, CodeData)
