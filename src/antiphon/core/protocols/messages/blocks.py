"""The messages of a request → the items of a conversation. A table has a reader for each type of block.

What an engine is sent must not change from turn to turn: a block becomes the same item wherever it stands, and `cache_control`,
which moves on with every turn, is never looked at.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from antiphon.core.protocols.messages.server_tools import blocks_to_item
from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.input_items import Item
from antiphon.wire.messages import (
    Block,
    DocumentInput,
    ImageInput,
    InputMessage,
    SearchResultInput,
    Source,
    TextInput,
    ThinkingInput,
    ToolResultInput,
    ToolUseInput,
)

# An engine has no member that says that a call failed: its result does.
FAILED, ERROR = "Error", "error"
CITATIONS = "citations of documents are not made: the answer has none"
LEFT_OUT = "blocks of type {kind} were left out: they mean nothing here"
UPLOAD = "blocks of type container_upload were left out: no code is run for this request"


class ItemReader:
    """Reads messages one after another. `items` are those of all that were read, `notices` say what was left out."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._notices: dict[str, None] = {}
        # The uses of tools that a server ran, by their ids. Their results are blocks of their own.
        self._uses: dict[str, Block] = {}
        # The parts of a message that go on with the next block.
        self.parts: list[Item] = []
        self._role = "user"

    @property
    def notices(self) -> list[str]:
        return list(self._notices)

    def read(self, message: Item, where: str) -> None:
        read = convert(message, InputMessage, where)
        self._role = read.role
        if isinstance(read.content, str):
            if read.content:
                self.parts.append(self.to_part(read.content))
        else:
            readers = READERS[read.role]
            for at, block in enumerate(read.content):
                self.read_block(block, f"{where}.content[{at}]", readers)
        self._end_message()

    def finish(self) -> None:
        """All messages have been read."""
        for use in self._uses.values():
            self.foreign(use, "")

    def read_block(self, block: Block, where: str, readers: "Mapping[str, ReadBlock]") -> None:
        kind = block.get("type")
        reader = readers.get(kind) if isinstance(kind, str) else None
        if reader is None:
            problem = f"`{where}.type` must be one of: {', '.join(readers)}. It is {quoted(kind)}."
            raise InvalidRequest(problem, param=f"{where}.type", code="invalid_value")
        reader(self, block, where)

    def to_part(self, text: str) -> Item:
        return {"type": "output_text" if self._role == "assistant" else "input_text", "text": text}

    def _end_message(self) -> None:
        if self.parts:
            self.items.append({"type": "message", "role": self._role, "content": self.parts})
            self.parts = []

    def _add(self, item: Item) -> None:
        self._end_message()
        self.items.append(item)

    def _notice(self, sentence: str) -> None:
        self._notices[sentence] = None

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def text(self, block: Block, where: str) -> None:
        if text := convert(block, TextInput, where).text:
            self.parts.append(self.to_part(text))

    def image(self, block: Block, where: str) -> None:
        self.parts.append(_image(block, where))

    def document(self, block: Block, where: str) -> None:
        document = convert(block, DocumentInput, where)
        if (document.citations or {}).get("enabled"):
            self._notice(CITATIONS)
        self.parts += self._document(document, where)

    def search_result(self, block: Block, where: str) -> None:
        found = convert(block, SearchResultInput, where)
        texts = [convert(each, TextInput, f"{where}.content[{at}]").text for at, each in enumerate(found.content)]
        self.parts.append(self.to_part("\n".join((f"{found.title} ({found.source})", *texts))))

    def thinking(self, block: Block, where: str) -> None:
        """Its signature is our seal of the whole thought, if it was made here. The text is the next best source."""
        thought = convert(block, ThinkingInput, where)
        summary = [{"type": "summary_text", "text": thought.thinking}] if thought.thinking else []
        sealed = {"encrypted_content": thought.signature} if thought.signature else {}
        if summary or sealed:
            self._add({"type": "reasoning", "summary": summary, **sealed})

    def redacted_thinking(self, block: Block, where: str) -> None:
        self._add({"type": "reasoning", "summary": [], "encrypted_content": str(block.get("data") or "")})

    def tool_use(self, block: Block, where: str) -> None:
        use = convert(block, ToolUseInput, where)
        arguments = msgspec.json.encode(use.input).decode()
        self._add({"type": "function_call", "call_id": use.id, "name": use.name, "arguments": arguments})

    def tool_result(self, block: Block, where: str) -> None:
        result = convert(block, ToolResultInput, where)
        output = self._output(result, where)
        failed = {"status": "incomplete"} if result.is_error else {}
        self._add({"type": "function_call_output", "call_id": result.tool_use_id, "output": output, **failed})

    def server_use(self, block: Block, where: str) -> None:
        self._uses[str(block.get("id"))] = block

    def server_result(self, block: Block, where: str) -> None:
        use = self._uses.pop(str(block.get("tool_use_id")), None)
        item = None if use is None else blocks_to_item(use, block)
        if item is None:
            self.foreign(block, where)
        else:
            self._add(item)

    def foreign(self, block: Block, where: str) -> None:
        self._notice(LEFT_OUT.format(kind=block["type"]))

    def upload(self, block: Block, where: str) -> None:
        self._notice(UPLOAD)

    def tool_change(self, block: Block, where: str) -> None:
        """It changes what the model is offered, and says nothing."""

    def reference(self, block: Block, where: str) -> None:
        self.parts.append(self.to_part(str(block.get("tool_name", ""))))

    # ---- what blocks contain -----------------------------------------------------------------------------------------

    def _document(self, document: DocumentInput, where: str) -> list[Item]:
        source = document.source
        # What the client says about it comes first. The title of a file that is sent is its name.
        context = _texts(document.context)
        about = [*_texts(document.title), *context]
        match source.type:
            case "text":
                return [*about, *_texts(_member(source, "data", where))]
            case "content":
                return [*about, *self._inside(source.content or [], f"{where}.source.content")]
            case "file":
                return [*about, {"type": "input_file", "file_id": _member(source, "file_id", where)}]
            case "url":
                return [*about, {"type": "input_file", "file_url": _member(source, "url", where)}]
        named = {"filename": document.title} if document.title else {}
        return [*context, {"type": "input_file", "file_data": _data_url(source, where), **named}]

    def _inside(self, content: str | list[Block], where: str) -> list[Item]:
        """The parts of a document or of a result."""
        if isinstance(content, str):
            return _texts(content)
        reader = ItemReader()
        for at, block in enumerate(content):
            reader.read_block(block, f"{where}[{at}]", INSIDE)
        self._notices |= reader._notices
        return reader.parts

    def _output(self, result: ToolResultInput, where: str) -> str | list[Item]:
        """A string if it is nothing but text."""
        parts = self._inside(result.content or "", f"{where}.content")
        text = "\n".join(part["text"] for part in parts if part["type"] == "input_text")
        says_so = not result.is_error or ERROR in text.lower()
        if any(part["type"] != "input_text" for part in parts):
            return parts if says_so else [*_texts(FAILED), *parts]
        return text if says_so else ": ".join(filter(None, (FAILED, text)))


ReadBlock = Callable[[ItemReader, Block, str], None]

# The results of tools that a server ran; and what means nothing here.
RESULTS = (
    *("web_search_tool_result", "web_fetch_tool_result", "tool_search_tool_result", "mcp_tool_result"),
    *("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
)
FOREIGN = ("compaction", "advisor_tool_result", "fallback")
OF_ALL: Mapping[str, ReadBlock] = {"text": ItemReader.text}
# By the role of the message. Anthropic's servers take each block from one role only.
READERS: Mapping[str, Mapping[str, ReadBlock]] = {
    "user": {
        **OF_ALL,
        "image": ItemReader.image,
        "document": ItemReader.document,
        "search_result": ItemReader.search_result,
        "tool_result": ItemReader.tool_result,
        "container_upload": ItemReader.upload,
        # Older clients send them so.
        **dict.fromkeys(RESULTS, ItemReader.server_result),
    },
    "assistant": {
        **OF_ALL,
        "thinking": ItemReader.thinking,
        "redacted_thinking": ItemReader.redacted_thinking,
        "tool_use": ItemReader.tool_use,
        "server_tool_use": ItemReader.server_use,
        "mcp_tool_use": ItemReader.server_use,
        **dict.fromkeys(RESULTS, ItemReader.server_result),
        **dict.fromkeys(FOREIGN, ItemReader.foreign),
    },
    # Claude Code has these between other messages. They stay in their places: what comes before them is in the engine's cache.
    "system": {**OF_ALL, **dict.fromkeys(("tool_addition", "tool_removal"), ItemReader.tool_change)},
}


# In a document, or in the result of a tool.
INSIDE: Mapping[str, ReadBlock] = {
    **OF_ALL,
    "image": ItemReader.image,
    "document": ItemReader.document,
    "search_result": ItemReader.search_result,
    "tool_reference": ItemReader.reference,
}


# ---- sources ---------------------------------------------------------------------------------------------------------


def _image(block: Block, where: str) -> Item:
    source = convert(block, ImageInput, where).source
    if source.type == "file":
        return {"type": "input_image", "file_id": _member(source, "file_id", where)}
    if source.type == "url":
        return {"type": "input_image", "image_url": _member(source, "url", where)}
    return {"type": "input_image", "image_url": _data_url(source, where)}


def _texts(text: str | None) -> list[Item]:
    return [{"type": "input_text", "text": text}] if text else []


def _data_url(source: Source, where: str) -> str:
    return f"data:{source.media_type or 'application/octet-stream'};base64,{_member(source, 'data', where)}"


def _member(source: Source, name: str, where: str) -> Any:
    if (value := getattr(source, name)) is None:
        param = f"{where}.source.{name}"
        raise InvalidRequest(f"Missing required parameter: `{param}`.", param=param, code="missing_required_parameter")
    return value
