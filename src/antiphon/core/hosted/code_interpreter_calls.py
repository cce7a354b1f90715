"""The calls of `code_interpreter`: the code, decoded while the model writes it; the item, and its events."""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from antiphon.core.hosted.code_results import data_of, data_to_outputs
from antiphon.core.items.calls import FunctionForm
from antiphon.core.prompt.documents import digest_of
from antiphon.core.toolbox.tools import ToolResult
from antiphon.string_member import StringMember
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import CodeInterpreterCall, HostedStatus
from antiphon.wire.responses import Status

# The kind of its function, and the name of that.
KIND = "code_interpreter"
PYTHON = "python"
# A value of `include`.
OUTPUTS = "code_interpreter_call.outputs"

# What models call the code, beside the name that the function has for it.
CODE_NAMES = ("code", "input", "python", "python_code", "script", "source", "source_code", "program", "cell", "snippet")
_FENCE = re.compile(r"\s*```[A-Za-z0-9_-]*\n(?P<code>.*?)\n?```\s*", re.DOTALL)


def code_to_arguments(code: str) -> str:
    return msgspec.json.encode({"code": code}).decode()


def code_call_id(code: str) -> str:
    """The id that a call has in the conversation. Not the item's, which it may get only when it is stored: the prompt stays the
    same."""
    return f"ci_{digest_of(code.encode('utf-8', 'replace')).hex()[:16]}"


def whole_code(arguments: str) -> str:
    """The code that any arguments most likely mean. Small models write it without JSON, or under another name."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return without_fence(arguments)
    if isinstance(value, dict):
        given = [value[name] for name in CODE_NAMES if name in value] or [each for each in value.values() if each]
        value = next((each for each in given if isinstance(each, str | list)), "")
    if isinstance(value, list):
        value = "\n".join(each for each in value if isinstance(each, str))
    # A number, or a word such as None, is code too.
    return without_fence(value if isinstance(value, str) else arguments)


def without_fence(code: str) -> str:
    """A model may put its code into a block of Markdown."""
    found = _FENCE.fullmatch(code)
    return code if found is None else found["code"]


class CodeInterpreterForm(FunctionForm):
    prefix = "ci"
    runs_here = True
    opens_early = True

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._member = StringMember(CODE_NAMES)
        self._code: list[str] = []
        self._result: ToolResult | None = None

    def begin(self) -> Iterable[Event]:
        yield events.CodeInterpreterCallInProgress(item_id=self._id, output_index=self._index)

    def fast_path(self, index: int) -> None:
        return None

    def feed(self, arguments: str) -> Iterable[Event]:
        self._arguments.append(arguments)
        return self._decoded(self._member.receive(arguments))

    def finish(self, status: Status) -> Iterable[Event]:
        yield from self._decoded(self._member.close() if self._member.opened else whole_code(self.arguments))
        # As the history will have them.
        self._arguments[:] = [code_to_arguments(self.code)]
        yield events.CodeInterpreterCallCodeDone(item_id=self._id, output_index=self._index, code=self.code)
        if status == "completed":
            yield events.CodeInterpreterCallInterpreting(item_id=self._id, output_index=self._index)

    def complete(self, result: ToolResult) -> Iterable[Event]:
        self._result = result
        # There is no event for a call that failed: its status says so.
        if not result.failed:
            yield events.CodeInterpreterCallCompleted(item_id=self._id, output_index=self._index)

    def item(self, status: Status) -> CodeInterpreterCall:
        return CodeInterpreterCall(
            id=self._id,
            status=self._shown_status(status),
            container_id=self._style.containers.get(KIND, ""),
            code=self.code,
            outputs=self._outputs(status),
        )

    def _shown_status(self, status: Status) -> HostedStatus:
        return "failed" if status == "completed" and self._result is not None and self._result.failed else status

    def _outputs(self, status: Status) -> list[dict[str, Any]] | None:
        if status == "in_progress":
            return []
        data = data_of(self._result)
        return data_to_outputs(data) if data is not None and OUTPUTS in self._style.included else None

    @property
    def code(self) -> str:
        return "".join(self._code)

    @property
    def chat_id(self) -> str:
        return code_call_id(self.code)

    def _decoded(self, text: str) -> Iterable[Event]:
        if not text:
            return ()
        self._code.append(text)
        padding = self._style.obfuscation(text)
        place = {"item_id": self._id, "output_index": self._index}
        return (events.CodeInterpreterCallCodeDelta(**place, delta=text, obfuscation=padding),)  # type: ignore[arg-type]
