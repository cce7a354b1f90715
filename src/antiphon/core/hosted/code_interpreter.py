"""The tool `code_interpreter`: its definition, the function that an engine sees of it, the container that it means, its calls,
and its row."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from antiphon.core.checks.work import digest_of
from antiphon.core.hosted.hosted_tool import ContainerFiles, HostedDefinition, HostedTool, Record, check_container, data_of
from antiphon.core.hosted.search_results import CALL_FAILED, shown_result
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.items.item_type import Draft, ItemType, ReadMembers, note_to_chat
from antiphon.core.protocols.responses.read import convert
from antiphon.core.stream.file_links import LINK, CodeFile
from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import TOOLS, ToolIdentity, ToolResult
from antiphon.partial_json import StringMember
from antiphon.patterns import late_pattern
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.containers import MemoryLimit, NetworkPolicy
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import CodeInterpreterCall, HostedStatus, type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import Status

# ---- What came of running code: its outputs as the API shows them, and its text for the model ------------------------

Output = dict[str, Any]

NO_OUTPUT = "(no output)"
IMAGE = "(an image was drawn)"
FILES = "Files that were written. Link one in your answer like this: [{name}]({link})"
MOST_NAMES = 20
MORE = "and {count} more"


class CodeData(Struct, frozen=True):
    """`images`: as data URLs. `files`: all of the container, which may be linked. `written`: the names of those that this run
    has made or changed. `raised`: it ended with an exception, or with its interpreter."""

    container_id: str
    logs: str = ""
    images: list[str] = []
    files: list[CodeFile] = []
    written: list[str] = []
    raised: bool = False
    # Of the container, as ISO 8601 has it; "" if it is not known.
    expires_at: str = ""


def data_to_outputs(data: CodeData) -> list[Output]:
    logs = [{"type": "logs", "logs": data.logs}] if data.logs else []
    return [*logs, *({"type": "image", "url": url} for url in data.images)]


def outputs_beyond(data: CodeData) -> list[Output]:
    """What the API has no output for: it shows the files that the answer links, and an exception as text."""
    files = [file for file in data.files if file.name in data.written]
    written = [{"type": "file", "file_id": file.id, "filename": file.name} for file in files]
    return [*written, *([{"type": "exception"}] if data.raised else ())]


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


# ---- The calls of `code_interpreter`: the code, decoded while the model writes it; the item, and its events ----------

# The kind of its function, and the name of that.
KIND = "code_interpreter"
PYTHON = "python"
CALL = type_of(CodeInterpreterCall)
# A value of `include`.
OUTPUTS = "code_interpreter_call.outputs"

# What models call the code, beside the name that the function has for it.
CODE_NAMES = ("code", "input", "python", "python_code", "script", "source", "source_code", "program", "cell", "snippet")
_FENCE = late_pattern(r"\s*```[A-Za-z0-9_-]*\n(?P<code>.*?)\n?```\s*", re.DOTALL)


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
    # They mean something however they are written.
    is_checked = False

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
        data = data_of(self._result, CodeData)
        if data is None or OUTPUTS not in self._style.included:
            return None
        return [*data_to_outputs(data), *(outputs_beyond(data) if self._style.shows_files else ())]

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


ONLY_IN_TOOLS = f"it counts only in `{TOOLS}`, not in an input item"
ONLY_PROGRAMS = "only programs may call it, and they do not run here"

WORDS = (
    "Runs Python code, and returns what it prints and the value of its last line. Variables and imports are kept for the next "
    f"call. Files are in /mnt/data. There is no internet. To give the user a file, save it in /mnt/data and link it in your "
    f"answer as [NAME]({LINK}NAME)."
)
PARAMETERS = parameters({"code": {**TEXT, "description": "The Python code to run."}}, "code")


class AutoContainer(Struct, frozen=True):
    type: Literal["auto"]
    file_ids: Annotated[list[str], Meta(max_length=50)] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None


class CodeInterpreterTool(Struct, frozen=True):
    container: str | AutoContainer
    allowed_callers: list[str] | None = None
    # Other protocols have uploaded files for any container. The API has them in `container.file_ids`.
    uploads: list[str] | None = None

    @property
    def only_programs(self) -> bool:
        return self.allowed_callers is not None and "direct" not in self.allowed_callers


def offered_tool(tools: Iterable[Tool]) -> tuple[int, CodeInterpreterTool] | None:
    """The definition that counts in a request, which is its first one, and its number among the tools."""
    defined = ((at, convert(tool, CodeInterpreterTool, f"{TOOLS}[{at}]")) for at, tool in enumerate(tools) if _is_meant(tool))
    return next(((at, tool) for at, tool in defined if not tool.only_programs), None)


def _is_meant(tool: Tool) -> bool:
    return tool.get("type") == KIND


class CodeInterpreter(HostedDefinition):
    """`most_memory`: of one container."""

    form = CodeInterpreterForm

    def __init__(self, *, most_memory: str = "1g") -> None:
        self.most_memory = most_memory

    def to_recorded(self) -> str:
        return self.most_memory

    @classmethod
    def from_recorded(cls, recorded: Any) -> Self:
        return cls(most_memory=msgspec.convert(recorded, str))

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        defined = convert(tool, CodeInterpreterTool, where)
        if defined.only_programs or not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_PROGRAMS if defined.only_programs else ONLY_IN_TOOLS)
            return
        container = defined.container
        if isinstance(container, AutoContainer):
            check_container(container.memory_limit, container.network_policy, self.most_memory, f"{where}.container.")
        identity = ToolIdentity(KIND, PYTHON)
        # Code may do anything: running it twice is not running it once.
        if box.add(identity, ChatFunction("", WORDS, PARAMETERS), where):
            box.not_idempotent.add(identity)


# ---- its items in a conversation -------------------------------------------------------------------------------------

NOT_SHOWN = "(the output is not shown again)"


def code_interpreter_to_chat(draft: Draft, item: Item, where: str) -> None:
    """The call as the model made it, and what it read of it; or what it printed, if the item has that."""
    code = item.get("code")
    if not isinstance(code, str):
        note_to_chat(draft, item, where)
        return
    call_id = code_call_id(code)
    draft.call(call_id, ToolIdentity(KIND, PYTHON), code_to_arguments(code))
    draft.output(call_id, [{"type": "text", "text": _item_to_words(item)}], where)


def _item_to_words(item: Item) -> str:
    if (shown := shown_result(item)) is not None:
        return shown.text
    outputs = item.get("outputs")
    if isinstance(outputs, list) and outputs:
        return outputs_to_text(outputs)
    return CALL_FAILED if item.get("status") == "failed" else NOT_SHOWN


def files_of(result: ToolResult) -> ContainerFiles | None:
    data = data_of(result, CodeData)
    return None if data is None else ContainerFiles(data.container_id, data.files, data.expires_at)


CODE_INTERPRETER = HostedTool(
    definitions={KIND: CodeInterpreter},
    items=(
        ItemType(
            CALL,
            code_interpreter_to_chat,
            prefix=CodeInterpreterForm.prefix,
            members={"container_id": "", "status": "completed"},
            continues_answer=True,
            read=ReadMembers(CodeInterpreterCall, "code", "outputs"),
        ),
    ),
    record=Record(KIND),
    files=files_of,
    content={CALL: frozenset({"code", "outputs"}), type_of(events.CodeInterpreterCallCodeDone): frozenset({"code"})},
)
