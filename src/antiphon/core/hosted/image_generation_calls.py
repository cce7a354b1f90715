"""The calls of `image_generation`: the item, with the image that was made, and its events."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.items.calls import SilentForm
from antiphon.core.prompt.documents import digest_of
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import HostedStatus, ImageGenerationCall, ImageGenerationError
from antiphon.wire.responses import Status

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


def data_of(result: ToolResult) -> ImageData | None:
    """None: there is no image."""
    data = result.data
    # Read from a recording, it is plain.
    return data if data is None or isinstance(data, ImageData) else msgspec.convert(data, ImageData)


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
        elif (data := data_of(result)) is not None:
            item.result, item.action = data.image, "generate"
            item.background, item.quality = data.background, data.quality
            item.output_format, item.size = data.output_format or UNSET, data.size or UNSET

    @property
    def prompt(self) -> str:
        return prompt_of(self.members)

    @property
    def chat_id(self) -> str:
        return image_call_id(self.prompt)
