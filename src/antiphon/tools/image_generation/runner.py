"""Runs the calls of `image_generation`."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.image_generation import ImageGeneration, offered_tool, passed_options
from antiphon.core.hosted.image_generation_calls import (
    KIND,
    MADE,
    ImageData,
    prompt_of,
)
from antiphon.core.hosted.made_images import MadeImage
from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.image_generation.server import McpImageServer
from antiphon.tools.runner import ToolContext

NEEDS = "The call needs `prompt`: a description of the image."
NOT_TAKEN = "{names} of tool {tool} {has} no effect: the tool that makes the images does not take {them}"


class ImageGenerationRunner(ImageGeneration):
    """Follows `ToolRunner`."""

    # Those of the server count.
    has_own_timeouts = True

    def __init__(self, server: McpImageServer) -> None:
        self._server = server

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        prompt = prompt_of(msgspec.json.decode(call.arguments, type=dict[str, Any]))
        if not prompt:
            return ToolResult(NEEDS, failed=True)
        options = passed_options(offered_tool(context.request.tools or ()))
        taken = await self._server.taken(options, context)
        made = await self._server.make(prompt, taken, context)
        if made.image is None:
            return ToolResult(made.problem, failed=True)
        data = _to_data(made.image, taken)
        # An image that is as it was wanted needs no words.
        missed = [name for name, value in options.items() if name not in taken and getattr(data, name, None) != value]
        return ToolResult(MADE, data=data, notice=_notice(missed))


def _to_data(image: MadeImage, taken: Mapping[str, Any]) -> ImageData:
    data = ImageData(image.data, output_format=image.format, size=image.size or taken.get("size"))
    return structs.replace(data, **{name: taken[name] for name in ("background", "quality") if name in taken})


def _notice(missed: Collection[str]) -> str:
    if not missed:
        return ""
    one = len(missed) == 1
    return NOT_TAKEN.format(names=", ".join(missed), tool=KIND, has="has" if one else "have", them="it" if one else "them")
