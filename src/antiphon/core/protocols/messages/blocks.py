"""The messages of a request → the items of a conversation. A table has a reader for each type of block.

What an engine is sent must not change from turn to turn: a block becomes the same item wherever it stands, and `cache_control`,
which moves on with every turn, is never looked at.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from antiphon.core.protocols.messages.documents import DocumentReader
from antiphon.core.protocols.messages.places import Place
from antiphon.core.protocols.messages.server_tools import blocks_to_items
from antiphon.core.protocols.messages.tools import ListedTool, to_list_item
from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.input_items import Item
from antiphon.wire.messages import (
    Block,
    BrowserChange,
    BrowserStateInput,
    CompactionInput,
    DocumentInput,
    ImageInput,
    InputMessage,
    ListingInput,
    RedactedInput,
    ReferenceInput,
    SearchResultInput,
    TextInput,
    ThinkingInput,
    ToolResultInput,
    ToolUseInput,
    UploadInput,
)

S = TypeVar("S", bound=Struct)

# An engine has no member that says that a call failed: its result does.
FAILED, ERROR = "Error", "error"
LEFT_OUT = "blocks of type {kind} were left out: they mean nothing here"
NO_EFFECT = "{member} of blocks of type {kind} has no effect here"
# What the model reads of a file for code.
UPLOADED = "(A file was put into the folder of the code.)"
# Members of every block that need no word: what an engine gets does not depend on them. `citations` of a text are those that
# the answer had.
OF_EVERY_BLOCK = frozenset({"type", "cache_control", "caller", "toolset_name", "citations"})


class ItemReader:
    """Reads messages one after another. `items` are those of all that were read, `places` say where each was, `notices` what
    was left out."""

    def __init__(self, within: "ItemReader | None" = None) -> None:
        """`within`: what it reads is inside a block that this one reads."""
        self.items: list[Item] = []
        self.places: list[Place] = []
        self._notices: dict[str, None] = {} if within is None else within._notices
        # The uses of tools that a server ran, by their ids. Their results are blocks of their own.
        self._uses: dict[str, Block] = {}
        # The parts of a message that go on with the next block, and the paths of their blocks.
        self.parts: list[Item] = []
        self.paths: list[str] = []
        # The ids of files that are for code, and the paths of their blocks.
        self.uploads: dict[str, str] = {}
        self.documents: DocumentReader = DocumentReader() if within is None else within.documents
        self._role = "user"

    @property
    def notices(self) -> list[str]:
        return list(self._notices)

    def read(self, message: Item, where: str, *, is_shown: bool = True) -> None:
        """`is_shown`: false for a system message whose time is over. What it says of tools still counts."""
        read = convert(message, InputMessage, where)
        self._role = read.role
        if read.content is None and (read.role != "system" or read.output_config is None):
            param = f"{where}.content"
            raise InvalidRequest(f"Missing required parameter: `{param}`.", param=param, code="missing_required_parameter")
        if isinstance(read.content, str):
            self._say([self.to_part(read.content)] if read.content else [], f"{where}.content")
        else:
            readers = READERS[read.role]
            for at, block in enumerate(read.content or ()):
                self.read_block(block, f"{where}.content[{at}]", readers)
        if not is_shown:
            self.parts, self.paths = [], []
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
            self.places.append(Place(self.paths[0].rpartition(".")[0], self.paths))
            self.parts, self.paths = [], []

    def _say(self, parts: list[Item], where: str) -> None:
        self.parts += parts
        self.paths += [where] * len(parts)

    def _add(self, item: Item, where: str, paths: Sequence[str] = ()) -> None:
        self._end_message()
        self.items.append(item)
        self.places.append(Place(where, paths))

    def _notice(self, sentence: str) -> None:
        self._notices[sentence] = None

    def _given(self, block: Block, kind: type[S], where: str) -> S:
        """The members of a block. One of which nothing is made is named."""
        given = convert(block, kind, where)
        for member in block.keys() - OF_EVERY_BLOCK - set(kind.__struct_fields__):
            if block[member]:
                self._notice(NO_EFFECT.format(member=member, kind=block["type"]))
        return given

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def text(self, block: Block, where: str) -> None:
        if text := self._given(block, TextInput, where).text:
            self._say([self.to_part(text)], where)

    def image(self, block: Block, where: str) -> None:
        given = self._given(block, ImageInput, where)
        if (given.transformations or {}).get("oversized_image") == "error":
            self._notice(NO_EFFECT.format(member="transformations.oversized_image", kind="image"))
        self._say([self.documents.image(given, where)], where)

    def document(self, block: Block, where: str) -> None:
        given = self._given(block, DocumentInput, where)
        self._say(self.documents.document(given, where, lambda *inside: self._inside(*inside).parts), where)

    def search_result(self, block: Block, where: str) -> None:
        self._say([self.documents.search_result(self._given(block, SearchResultInput, where), where)], where)

    def thinking(self, block: Block, where: str) -> None:
        """Its signature is our seal of the whole thought, if it was made here. The text is the next best source."""
        thought = self._given(block, ThinkingInput, where)
        summary = [{"type": "summary_text", "text": thought.thinking}] if thought.thinking else []
        sealed = {"encrypted_content": thought.signature} if thought.signature else {}
        if summary or sealed:
            self._add({"type": "reasoning", "summary": summary, **sealed}, where)

    def redacted_thinking(self, block: Block, where: str) -> None:
        sealed = self._given(block, RedactedInput, where).data
        self._add({"type": "reasoning", "summary": [], "encrypted_content": sealed}, where)

    def tool_use(self, block: Block, where: str) -> None:
        use = self._given(block, ToolUseInput, where)
        call = {"type": "function_call", "call_id": use.id, "name": use.name}
        group = {"namespace": use.toolset_name} if use.toolset_name else {}
        self._add({**call, **group, "arguments": msgspec.json.encode(use.input).decode()}, where)

    def tool_result(self, block: Block, where: str) -> None:
        result = self._given(block, ToolResultInput, where)
        output, paths = self._output(result, where)
        failed = {"status": "incomplete"} if result.is_error else {}
        item = {"type": "function_call_output", "call_id": result.tool_use_id, "output": output, **failed}
        self._add(item, where, paths)

    def server_use(self, block: Block, where: str) -> None:
        self._uses[str(block.get("id"))] = block

    def server_result(self, block: Block, where: str) -> None:
        use = self._uses.pop(str(block.get("tool_use_id")), None)
        items = [] if use is None else blocks_to_items(use, block)
        for item in items:
            self._add(item, where)
        if not items:
            self.foreign(block, where)

    def listing(self, block: Block, where: str) -> None:
        """The tools of an MCP server, as an earlier answer has listed them. The server is not asked again."""
        given = self._given(block, ListingInput, where)
        tools = [convert(each, ListedTool, f"{where}.tools[{at}]") for at, each in enumerate(given.tools)]
        self._add(to_list_item(given.mcp_server_name, tools), where)

    def compaction(self, block: Block, where: str) -> None:
        """It takes the place of all that is before it. One without a summary has failed, and changes nothing."""
        given = convert(block, CompactionInput, where)
        if given.content:
            sealed = {"encrypted_content": given.encrypted_content} if given.encrypted_content else {}
            self._add({"type": "compaction", "summary": given.content, **sealed}, where)

    def foreign(self, block: Block, where: str) -> None:
        self._notice(LEFT_OUT.format(kind=block["type"]))

    def upload(self, block: Block, where: str) -> None:
        self.uploads.setdefault(self._given(block, UploadInput, where).file_id, where)
        self._say([self.to_part(UPLOADED)], where)

    def tool_change(self, block: Block, where: str) -> None:
        """It changes what the model is offered, and says nothing."""

    def reference(self, block: Block, where: str) -> None:
        self._say([self.to_part(self._given(block, ReferenceInput, where).tool_name)], where)

    def browser_state(self, block: Block, where: str) -> None:
        state = self._given(block, BrowserStateInput, where)
        self._say([self.to_part(_state_to_text(state))], where)

    # ---- what blocks contain -----------------------------------------------------------------------------------------

    def _inside(self, content: str | list[Block], where: str) -> "ItemReader":
        """It has the parts of a document or of a result."""
        reader = ItemReader(self)
        if isinstance(content, str):
            reader._say([reader.to_part(content)] if content else [], where)
        else:
            for at, block in enumerate(content):
                reader.read_block(block, f"{where}[{at}]", INSIDE)
        return reader

    def _output(self, result: ToolResultInput, where: str) -> tuple[str | list[Item], list[str]]:
        """A string if it is nothing but text. Otherwise its parts, and the paths of these."""
        reader = self._inside(result.content or "", f"{where}.content")
        parts, paths = reader.parts, reader.paths
        text = "\n".join(part["text"] for part in parts if part["type"] == "input_text")
        says_so = not result.is_error or ERROR in text.lower()
        if any(part["type"] != "input_text" for part in parts):
            failed = reader.to_part(FAILED)
            return (parts, paths) if says_so else ([failed, *parts], [where, *paths])
        return text if says_so else ": ".join(filter(None, (FAILED, text))), []


ReadBlock = Callable[[ItemReader, Block, str], None]

# The results of tools that a server ran; and what means nothing here.
RESULTS = (
    *("web_search_tool_result", "web_fetch_tool_result", "tool_search_tool_result", "mcp_tool_result"),
    *("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
)
FOREIGN = ("advisor_tool_result", "fallback")
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
        "compaction": ItemReader.compaction,
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
        "mcp_tool_listing": ItemReader.listing,
        "compaction": ItemReader.compaction,
        "container_upload": ItemReader.upload,
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
    "browser_state": ItemReader.browser_state,
}


# ---- the state of a browser ------------------------------------------------------------------------------------------


def _state_to_text(state: BrowserStateInput) -> str:
    tabs = [f"- {tab.tab_id}{' (active)' if tab.active else ''}: {tab.title} {tab.url}".rstrip() for tab in state.tabs]
    changes = [_change_to_text(change) for change in state.state_changes or ()]
    return "\n".join(("Open tabs:", *(tabs or ["- none"]), *changes))


def _change_to_text(change: BrowserChange) -> str:
    """Such as: download_completed: d1 https://example.com/a.pdf /tmp/a.pdf, 5 bytes."""
    size = f"{change.size_bytes} bytes" if change.size_bytes is not None else None
    about = (change.tab_id, change.download_id, change.url, change.path, change.error, size)
    return f"{change.type}: {' '.join(each for each in about if each)}"
