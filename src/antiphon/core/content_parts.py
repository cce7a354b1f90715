"""The content parts of a message or of a tool's output → parts of a chat message. A table with one converter per type."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from antiphon.core.documents import ReadDocument
from antiphon.core.validation import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.input_items import InputAudio, InputFile, InputImage

Part = dict[str, Any]

# Documents that may look like text.
DOCUMENTS = (b"%PDF-", b"{\\rtf")
SCANNED = "(It has no text. The images on its pages follow: {count}.)"


def text_part(part: Part, where: str, read: ReadDocument) -> list[Part]:
    text = part.get("text")
    if not isinstance(text, str):
        code = "missing_required_parameter" if text is None else "invalid_type"
        raise InvalidRequest(f"Invalid `{where}.text`: it must be a string.", param=f"{where}.text", code=code)
    return [{"type": "text", "text": text}]


def refusal_part(part: Part, where: str, read: ReadDocument) -> list[Part]:
    return text_part({"text": part.get("refusal")}, where, read)


def image_part(part: Part, where: str, read: ReadDocument) -> list[Part]:
    image = convert(part, InputImage, where)
    if not image.image_url:
        raise InvalidRequest(
            f"`{where}` needs `image_url`, a URL or a data URL: there are no stored files here.",
            param=f"{where}.image_url",
            code="missing_required_parameter",
        )
    url: Part = {"url": image.image_url}
    # "original" exists only in the Responses API, and "auto" is what engines do without it.
    if image.detail in ("low", "high"):
        url["detail"] = image.detail
    return [{"type": "image_url", "image_url": url}]


def file_part(part: Part, where: str, read: ReadDocument) -> list[Part]:
    file = convert(part, InputFile, where)
    if file.file_data is None:
        raise InvalidRequest(
            f"`{where}` needs `file_data`: the content of a file must be in the request.",
            param=f"{where}.file_data",
            code="missing_required_parameter",
        )
    try:
        raw = base64.b64decode(file.file_data.rpartition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(
            f"`{where}.file_data` must be base64 or a data URL.", param=f"{where}.file_data", code="invalid_value"
        ) from None
    text, images = _decoded(raw), tuple[str, ...]()
    if text is None or raw.startswith(DOCUMENTS):
        outcome = read(raw, f"{where}.file_data", file.filename or "")
        text, images = outcome.text, outcome.images
    name = file.filename or "file"
    if images:
        text = SCANNED.format(count=len(images))
    return [
        {"type": "text", "text": f'<file name="{name}">\n{text}\n</file>'},
        *({"type": "image_url", "image_url": {"url": url}} for url in images),
    ]


def _decoded(raw: bytes) -> str | None:
    """Text goes as it is. None: it is none, or in another encoding."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def audio_part(part: Part, where: str, read: ReadDocument) -> list[Part]:
    audio = convert(part, InputAudio, where).input_audio
    return [{"type": "input_audio", "input_audio": {"data": audio.data, "format": audio.format}}]


CONVERTERS: dict[str, Callable[[Part, str, ReadDocument], list[Part]]] = {
    "input_text": text_part,
    "output_text": text_part,
    "text": text_part,
    "summary_text": text_part,
    "reasoning_text": text_part,
    "refusal": refusal_part,
    "input_image": image_part,
    "input_file": file_part,
    "input_audio": audio_part,
}


def content_to_parts(content: str | list[Part], where: str, read: ReadDocument) -> list[Part]:
    """`read`: the text or the pages of a document that is not plain text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [each for at, part in enumerate(content) for each in _part(part, f"{where}[{at}]", read)]


def _part(part: Part, where: str, read: ReadDocument) -> list[Part]:
    kind = part.get("type")
    converter = CONVERTERS.get(kind) if isinstance(kind, str) else None
    if converter is None:
        raise InvalidRequest(
            f"`{where}.type` must be one of: {', '.join(CONVERTERS)}. It is {quoted(kind)}.",
            param=f"{where}.type",
            code="missing_required_parameter" if kind is None else "invalid_value",
        )
    return converter(part, where, read)


def parts_to_text(parts: list[Part]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
