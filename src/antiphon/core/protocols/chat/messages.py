"""The messages of a request → the items of a conversation. Tables have a reader for each role, and for each type of content.

What an engine is sent must not change from turn to turn: a message becomes the same items wherever it stands.
"""

from collections.abc import Callable, Mapping
from typing import Any

from antiphon.core.protocols.chat.places import OF_CALL, OF_CUSTOM_CALL, OF_MESSAGE, Place
from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.partial_json import arguments_to_text
from antiphon.wire.chat import Part
from antiphon.wire.chat_completions import (
    AssistantMessage,
    CustomCallInput,
    FilePart,
    FunctionCallInput,
    ImagePart,
    InstructionMessage,
    ToolMessage,
    UserMessage,
)
from antiphon.wire.input_items import Item

NAMES = "the names of participants (`name` of a message) were left out"
BREAKPOINTS = "field prompt_cache_breakpoint of a part has no effect: the engine decides what its prefix cache keeps"
BREAKPOINT = "prompt_cache_breakpoint"


class ItemReader:
    """Reads messages one after another. `items` are those of all that were read, `places` say where each was."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.places: list[Place] = []
        # Of what was left out, each once.
        self.notices: list[str] = []
        # The ids of calls so far, and the types of their outputs.
        self._outputs: dict[str, str] = {}

    def read(self, message: Item, where: str) -> None:
        role = message.get("role")
        reader = ROLES.get(role) if isinstance(role, str) else None
        if reader is None:
            problem = f"`{where}.role` must be one of: {', '.join(ROLES)}. It is {quoted(role)}."
            code = "missing_required_parameter" if role is None else "invalid_value"
            raise InvalidRequest(problem, param=f"{where}.role", code=code)
        # That of a tool is the name of the function, which its call has.
        if role != "tool" and message.get("name"):
            self._notice(NAMES)
        reader(self, message, where)

    def _notice(self, sentence: str) -> None:
        if sentence not in self.notices:
            self.notices.append(sentence)

    # ---- roles -------------------------------------------------------------------------------------------------------

    def instructions(self, message: Item, where: str) -> None:
        self._add_message("system", convert(message, InstructionMessage, where).content, where)

    def user(self, message: Item, where: str) -> None:
        self._add_message("user", convert(message, UserMessage, where).content, where)

    def assistant(self, message: Item, where: str) -> None:
        said = convert(message, AssistantMessage, where)
        thought = said.reasoning_content or (said.reasoning if isinstance(said.reasoning, str) else "")
        if not thought.strip():
            # Some clients keep only the last piece of a streamed thought, which may be a line break.
            thought = ""
        if thought:
            self._add({"type": "reasoning", "content": [{"type": "reasoning_text", "text": thought}]}, where)
        calls = said.tool_calls or []
        content = _with_refusal(said.content or "", said.refusal)
        # An empty message is a turn, too.
        if content or not (calls or thought):
            self._add_message("assistant", content, where)
        for at, call in enumerate(calls):
            self._add_call(call, f"{where}.tool_calls[{at}]")

    def tool(self, message: Item, where: str) -> None:
        result = convert(message, ToolMessage, where)
        id, content = result.tool_call_id, result.content
        if id not in self._outputs:
            problem = f"No call has the id {quoted(id)}: a message of role tool must follow the call that it answers."
            raise InvalidRequest(problem, param=f"{where}.tool_call_id", code="tool_call_not_found")
        output = content if isinstance(content, str) else self._parts(content or [], f"{where}.content")
        self._add({"type": self._outputs[id], "call_id": id, "output": output or ""}, where)

    def _add(self, item: Item, where: str, names: Mapping[str, str] = OF_MESSAGE) -> None:
        self.items.append(item)
        self.places.append(Place(where, names))

    def _parts(self, content: list[Part], where: str) -> list[Part]:
        if any(part.get(BREAKPOINT) for part in content):
            self._notice(BREAKPOINTS)
        return [_part(part, f"{where}[{at}]") for at, part in enumerate(content)]

    def _add_message(self, role: str, content: str | list[Part], where: str) -> None:
        read = content if isinstance(content, str) else self._parts(content, f"{where}.content")
        self._add({"type": "message", "role": role, "content": read}, where)

    def _add_call(self, call: Item, where: str) -> None:
        if call.get("type", "function") == "custom":
            custom = convert(call, CustomCallInput, where)
            named = {"call_id": custom.id, "name": custom.custom.name}
            self._add({"type": "custom_tool_call", **named, "input": custom.custom.input}, where, OF_CUSTOM_CALL)
            self._outputs[custom.id] = "custom_tool_call_output"
            return
        called = convert(call, FunctionCallInput, where)
        given = called.function.arguments
        arguments = given if isinstance(given, str) else arguments_to_text(given)
        named = {"call_id": called.id, "name": called.function.name}
        self._add({"type": "function_call", **named, "arguments": arguments}, where, OF_CALL)
        self._outputs[called.id] = "function_call_output"


ROLES: Mapping[str, Callable[[ItemReader, Item, str], None]] = {
    "system": ItemReader.instructions,
    "developer": ItemReader.instructions,
    "user": ItemReader.user,
    "assistant": ItemReader.assistant,
    "tool": ItemReader.tool,
}


# ---- content ---------------------------------------------------------------------------------------------------------


def _image(part: Part, where: str) -> Part:
    image = convert(part, ImagePart, where).image_url
    if isinstance(image, str):
        return {"type": "input_image", "image_url": image}
    return {"type": "input_image", "image_url": image.url, "detail": image.detail}


def _file(part: Part, where: str) -> Part:
    file = convert(part, FilePart, where).file
    members = {"file_data": file.file_data, "file_id": file.file_id, "filename": file.filename}
    return {"type": "input_file", **{name: value for name, value in members.items() if value is not None}}


# The others have the same form in both APIs.
CONTENT: Mapping[Any, Callable[[Part, str], Part]] = {"image_url": _image, "file": _file}


def _part(part: Part, where: str) -> Part:
    kind = part.get("type")
    read = CONTENT.get(kind) if isinstance(kind, str) else None
    return part if read is None else read(part, where)


def _with_refusal(content: str | list[Part], refusal: str | None) -> str | list[Part]:
    """Both are what the assistant said."""
    if not refusal:
        return content
    said: list[Part] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [*said, {"type": "refusal", "refusal": refusal}] if content else refusal
