"""The tool `image_generation`: its definition, the function that an engine sees of it, which of its options are used, its
calls, its row, and the images that a tool of an MCP server has made."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, structs

from antiphon.core.checks.work import digest_of
from antiphon.core.hosted.hosted_tool import HostedDefinition, HostedTool, Record, data_of
from antiphon.core.hosted.search_results import CALL_FAILED
from antiphon.core.items.call_forms import SilentForm
from antiphon.core.items.item_type import Draft, ItemType, note_to_chat
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import TOOLS, ToolIdentity, ToolResult
from antiphon.patterns import late_pattern
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import HostedStatus, ImageGenerationCall, ImageGenerationError, type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import Status

# ---- The calls of `image_generation`: the item, with the image that was made, and its events -------------------------

# The kind of the tool, and the name of its function.
KIND = "image_generation"
# All that the model gets: it is not shown the image, now or when the item comes back.
MADE = "The image was made and is shown to the user."


class ImageData(Struct, frozen=True):
    """`image`: in base64. The others are members of the item, as the API names them."""

    image: str
    background: str = "auto"
    quality: str = "auto"
    output_format: str | None = None
    size: str | None = None


def prompt_of(members: Mapping[str, Any]) -> str:
    prompt = members.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""


def prompt_to_arguments(prompt: str) -> str:
    return msgspec.json.encode({"prompt": prompt}).decode()


def image_call_id(prompt: str) -> str:
    """The id that a call has in the conversation. Not the item's, which it may get only when it is stored: the prompt stays the
    same."""
    return f"ig_{digest_of(prompt.encode('utf-8', 'replace')).hex()[:16]}"


class ImageGenerationForm(SilentForm):
    prefix = "ig"
    runs_here = True

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._result: ToolResult | None = None

    def finish(self, status: Status) -> Iterable[Event]:
        yield from super().finish(status)
        # As the history will have them.
        self._arguments[:] = [prompt_to_arguments(self.prompt)]
        if status == "completed":
            yield events.ImageGenerationCallInProgress(item_id=self._id, output_index=self._index)
            yield events.ImageGenerationCallGenerating(item_id=self._id, output_index=self._index)

    def complete(self, result: ToolResult) -> Iterable[Event]:
        self._result = result
        # There is no event for a call that failed: its status says so.
        if not result.failed:
            yield events.ImageGenerationCallCompleted(item_id=self._id, output_index=self._index)

    def item(self, status: Status) -> ImageGenerationCall:
        item = ImageGenerationCall(id=self._id, status=self._shown_status(status))
        if status != "in_progress":
            item.result, item.revised_prompt = None, self.prompt or UNSET
            self._show_result(item)
        return item

    def _shown_status(self, status: Status) -> HostedStatus:
        # The API has no word for a call that was cut off.
        if status == "incomplete" or (status == "completed" and self._result is not None and self._result.failed):
            return "failed"
        return status

    def _show_result(self, item: ImageGenerationCall) -> None:
        result = self._result
        if result is None:
            return
        if result.failed:
            item.error = ImageGenerationError(result.output)
        elif (data := data_of(result, ImageData)) is not None:
            item.result, item.action = data.image, "generate"
            item.background, item.quality = data.background, data.quality
            item.output_format, item.size = data.output_format or UNSET, data.size or UNSET

    @property
    def prompt(self) -> str:
        return prompt_of(self.members)

    @property
    def chat_id(self) -> str:
        return image_call_id(self.prompt)


ONLY_IN_TOOLS = f"it counts only in `{TOOLS}`, not in an input item"
WORDS = "Makes an image from a description, and shows it to the user."
PARAMETERS = parameters({"prompt": {**TEXT, "description": "What the image shows, in detail."}}, "prompt")

# Options that a tool of an MCP server may have arguments for.
PASSED_ON = ("size", "quality", "background", "output_format", "output_compression")
# Option → the values that ask for nothing in particular.
USUAL: dict[str, tuple[Any, ...]] = {
    "action": ("auto", "generate"),
    "background": ("auto",),
    "moderation": ("auto",),
    "output_compression": (100,),
    "partial_images": (0,),
    "quality": ("auto",),
    "size": ("auto",),
}
# The types of JSON Schema that these options can have.
SCHEMA_TYPES: dict[type, tuple[str, ...]] = {str: ("string",), int: ("integer", "number")}


class ImageMask(Struct, frozen=True):
    file_id: str | None = None
    image_url: str | None = None


class ImageGenerationTool(Struct, frozen=True):
    action: Literal["generate", "edit", "auto"] | None = None
    background: Literal["transparent", "opaque", "auto"] | None = None
    complexity: Literal["low", "medium", "high"] | None = None
    frame_count: Annotated[int, Meta(ge=1)] | None = None
    frame_duration_ms: Annotated[int, Meta(ge=1)] | None = None
    input_fidelity: Literal["high", "low"] | None = None
    input_image_mask: ImageMask | None = None
    model: str | None = None
    moderation: Literal["auto", "low"] | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"] | None = None
    partial_images: Annotated[int, Meta(ge=0, le=3)] | None = None
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"] | None = None
    size: Annotated[str, Meta(min_length=1, max_length=32)] | None = None
    svg: dict[str, Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Those that ask for something."""
        given = structs.asdict(self)
        return {name: value for name, value in given.items() if value is not None and value not in USUAL.get(name, ())}


def offered_tool(tools: Iterable[Tool]) -> ImageGenerationTool:
    """The definition that counts in a request: its first one."""
    defined = (convert(tool, ImageGenerationTool, TOOLS) for tool in tools if tool.get("type") == KIND)
    return next(defined, ImageGenerationTool())


def passed_options(tool: ImageGenerationTool) -> dict[str, Any]:
    """Those that the tool of a server gets, if it has arguments for them."""
    return {name: value for name, value in tool.options.items() if name in PASSED_ON}


def takes(schema: Any, name: str, value: Any) -> bool:
    """Whether a tool with this input schema has an argument of this name that may be this value, as far as it is simple to
    see."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    argument = properties.get(name) if isinstance(properties, Mapping) else None
    if not isinstance(argument, Mapping):
        return False
    choices = argument.get("anyOf")
    return any(_may_be(choice, value) for choice in (choices if isinstance(choices, list) and choices else [argument]))


def _may_be(argument: Any, value: Any) -> bool:
    if not isinstance(argument, Mapping):
        return False
    kinds, values = argument.get("type"), argument.get("enum")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = not isinstance(kinds, list) or any(kind in SCHEMA_TYPES[type(value)] for kind in kinds)
    return fits and (not isinstance(values, list) or value in values)


class ImageGeneration(HostedDefinition):
    form = ImageGenerationForm

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        defined = convert(tool, ImageGenerationTool, where)
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if box.add(ToolIdentity(KIND, KIND), ChatFunction("", WORDS, PARAMETERS), where):
            box.notices += _without_effect(tool, defined)


def _without_effect(tool: Tool, defined: ImageGenerationTool) -> Iterable[str]:
    for name in sorted(set(tool) - {"type", *ImageGenerationTool.__struct_fields__}):
        yield f"{name} of tool {KIND} has no effect: it is not known here"
    for name in defined.options:
        if name not in PASSED_ON:
            yield f"{name} of tool {KIND} has no effect: an MCP server makes the images"


# ---- its items in a conversation -------------------------------------------------------------------------------------


def image_generation_to_chat(draft: Draft, item: Item, where: str) -> None:
    """The call as the model made it. The image is not shown to it again."""
    prompt = prompt_of({"prompt": item.get("revised_prompt")})
    if not prompt:
        note_to_chat(draft, item, where)
        return
    call_id = image_call_id(prompt)
    draft.call(call_id, ToolIdentity(KIND, KIND), prompt_to_arguments(prompt))
    draft.output(call_id, [{"type": "text", "text": _item_to_words(item)}], where)


def _item_to_words(item: Item) -> str:
    if item.get("status") in (None, "completed"):
        return MADE
    error = item.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else CALL_FAILED


IMAGE_GENERATION = HostedTool(
    definitions={KIND: ImageGeneration},
    items=(
        ItemType(
            type_of(ImageGenerationCall),
            image_generation_to_chat,
            prefix=ImageGenerationForm.prefix,
            members={"status": "completed"},
            continues_answer=True,
        ),
    ),
    record=Record(KIND, absent=False),
)


Block = Mapping[str, Any]

# The beginning of a file → its format.
_BEGINNINGS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (late_pattern(rb"\x89PNG\r\n\x1a\n"), "png"),
    (late_pattern(rb"\xff\xd8\xff"), "jpeg"),
    (late_pattern(rb"GIF8[79]a"), "gif"),
    (late_pattern(rb"RIFF....WEBP", re.DOTALL), "webp"),
    (late_pattern(rb"\s*(<\?xml|<svg)"), "svg"),
)
# The frames of a JPEG that have its size: all that begin one, but not tables (C4, CC) and not an extension (C8).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class MadeImage(Struct, frozen=True):
    """`data`: in base64. `format`: as the API names it; None if it has no name for it. `size`: WIDTHxHEIGHT, if it is known."""

    data: str
    format: str | None = None
    size: str | None = None


def content_to_image(content: Iterable[Block]) -> MadeImage | None:
    """The first image of a result. None: there is none, or none that can be read."""
    made = (_to_image(*given) for given in map(_given_image, content) if given is not None)
    return next((image for image in made if image is not None), None)


def _given_image(block: Block) -> tuple[Any, str] | None:
    """What should be an image in base64, and what it is said to be."""
    if block.get("type") == "image":
        return block.get("data"), str(block.get("mimeType"))
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        return resource.get("blob"), str(resource.get("mimeType"))
    return None


def _to_image(text: Any, kind: str) -> MadeImage | None:
    data = _decoded(text)
    if not data:
        return None
    # What it is said to be is often wrong.
    format = next((name for beginning, name in _BEGINNINGS if beginning.match(data)), None)
    if format is None and not kind.startswith("image/"):
        return None
    read = _SIZES.get(format or "")
    found = read(data) if read is not None else None
    return MadeImage(base64.b64encode(data).decode(), format, None if found is None else f"{found[0]}x{found[1]}")


def _decoded(text: Any) -> bytes:
    """Some servers send a data URL, or lines."""
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode("".join(text.rpartition(";base64,")[2].split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


# ---- sizes -----------------------------------------------------------------------------------------------------------

Size = tuple[int, int]


def _png_size(data: bytes) -> Size | None:
    return _numbers(data[16:24], 4, "big")


def _gif_size(data: bytes) -> Size | None:
    return _numbers(data[6:10], 2, "little")


def _jpeg_size(data: bytes) -> Size | None:
    """Segment by segment, until the one that begins the frame: each has its length."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _FRAMES:
            found = _numbers(data[at + 5 : at + 9], 2, "big")
            return None if found is None else (found[1], found[0])
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _numbers(data: bytes, length: int, order: Any) -> Size | None:
    first, second = int.from_bytes(data[:length], order), int.from_bytes(data[length:], order)
    return (first, second) if len(data) == 2 * length and first and second else None


_SIZES: dict[str, Callable[[bytes], Size | None]] = {"png": _png_size, "gif": _gif_size, "jpeg": _jpeg_size}
