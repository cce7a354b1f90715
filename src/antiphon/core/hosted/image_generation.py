"""The tool `image_generation`: its definition, the function that an engine sees of it, and which of its options are used."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from antiphon.core.hosted.image_generation_calls import KIND, ImageGenerationForm
from antiphon.core.protocols.responses.validation import convert
from antiphon.core.toolbox.built_in_tools import TEXT, parameters
from antiphon.core.toolbox.tools import (
    TOOLS,
    Native,
    Toolbox,
    leave_out,
)
from antiphon.wire.chat import ChatFunction

Tool = dict[str, Any]

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


class ImageGeneration:
    """A type of tool that the gateway runs (`core.environment.GatewayTool`)."""

    form = ImageGenerationForm

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        defined = convert(tool, ImageGenerationTool, where)
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if box.add(Native(KIND, KIND), ChatFunction("", WORDS, PARAMETERS), where):
            box.notices += _without_effect(tool, defined)


def _without_effect(tool: Tool, defined: ImageGenerationTool) -> Iterable[str]:
    for name in sorted(set(tool) - {"type", *ImageGenerationTool.__struct_fields__}):
        yield f"{name} of tool {KIND} has no effect: it is not known here"
    for name in defined.options:
        if name not in PASSED_ON:
            yield f"{name} of tool {KIND} has no effect: an MCP server makes the images"
