"""The content parts of a message or of a tool's output → parts of a chat message. A table with one converter per type."""

import base64
import binascii
from collections.abc import Callable

from antiphon.core.checks.work import CheckOutcome, DocumentWork, StoredFileWork, UrlWork
from antiphon.core.prompt.citable import CitablePart, citable_to_text
from antiphon.core.prompt.documents import Documents, ReadWork, plain_text
from antiphon.core.protocols.responses.read import convert
from antiphon.core.protocols.responses.references import is_address
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.chat import Part
from antiphon.wire.input_items import CITABLE, InputAudio, InputFile, InputImage

SCANNED = "(It has no text. The images on its pages follow: {count}.)"


def text_part(part: Part, where: str, documents: Documents) -> list[Part]:
    text = part.get("text")
    if not isinstance(text, str):
        code = "missing_required_parameter" if text is None else "invalid_type"
        raise InvalidRequest(f"Invalid `{where}.text`: it must be a string.", param=f"{where}.text", code=code)
    return [{"type": "text", "text": text}]


def refusal_part(part: Part, where: str, documents: Documents) -> list[Part]:
    return text_part({"text": part.get("refusal")}, where, documents)


def image_part(part: Part, where: str, documents: Documents) -> list[Part]:
    image = convert(part, InputImage, where)
    given = _only_one(where, {"image_url": image.image_url, "file_id": image.file_id})
    url: Part = {"url": image.image_url}
    if (work := _image_work(image, given, documents)) is not None:
        outcome = documents.read(work, f"{where}.{given}")
        if not outcome.images:
            # It was not read yet; or it cannot be, and the model reads why.
            return [{"type": "text", "text": outcome.text}]
        url = {"url": outcome.images[0]}
    # "original" exists only in the Responses API, and "auto" is what engines do without it.
    if image.detail in ("low", "high"):
        url["detail"] = image.detail
    return [{"type": "image_url", "image_url": url}]


def _image_work(image: InputImage, given: str, documents: Documents) -> ReadWork | None:
    """None: it goes to the engine as it is, which may know how to fetch it."""
    if given == "file_id":
        return StoredFileWork(image.file_id or "", is_image=True)
    url = image.image_url or ""
    return UrlWork(url, is_image=True) if documents.fetches and is_address(url) else None


def _read_file(part: Part, where: str, documents: Documents) -> tuple[CheckOutcome, str]:
    """What came of reading it, and its name."""
    file = convert(part, InputFile, where)
    given = _only_one(where, {"file_data": file.file_data, "file_id": file.file_id, "file_url": file.file_url})
    if given == "file_url":
        outcome = documents.read(UrlWork(file.file_url or ""), f"{where}.file_url")
    elif given == "file_id":
        outcome = documents.read(StoredFileWork(file.file_id or ""), f"{where}.file_id")
    else:
        outcome = _read_data(file, where, documents)
    return outcome, file.filename or outcome.title or "file"


def file_part(part: Part, where: str, documents: Documents) -> list[Part]:
    outcome, name = _read_file(part, where, documents)
    text, images = outcome.text, outcome.images
    if images:
        text = SCANNED.format(count=len(images))
    return [
        {"type": "text", "text": f'<file name="{name}">\n{text}\n</file>'},
        *({"type": "image_url", "image_url": {"url": url}} for url in images),
    ]


def _only_one(where: str, members: dict[str, str | None]) -> str:
    """The name of the member that is there. It must be one of them."""
    # An empty file is a file.
    given = [name for name, value in members.items() if value or (value == "" and name == "file_data")]
    if len(given) == 1:
        return given[0]
    names = ", ".join(f"`{name}`" for name in members)
    if given:
        raise InvalidRequest(
            f"`{where}` must have one of {names}, not several.",
            param=f"{where}.{given[1]}",
            code="mutually_exclusive_parameters",
        )
    first = next(iter(members))
    raise InvalidRequest(f"`{where}` must have one of: {names}.", param=f"{where}.{first}", code="missing_required_parameter")


def _read_data(file: InputFile, where: str, documents: Documents) -> CheckOutcome:
    try:
        raw = base64.b64decode((file.file_data or "").rpartition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(
            f"`{where}.file_data` must be base64 or a data URL.", param=f"{where}.file_data", code="invalid_value"
        ) from None
    text = plain_text(raw)
    return CheckOutcome(text) if text is not None else documents.read(DocumentWork(raw), f"{where}.file_data")


def citable_part(part: Part, where: str, documents: Documents) -> list[Part]:
    """A document that the model can cite. Of one that has no text, nothing can be cited."""
    given = convert(part, CitablePart, where)
    text = ""
    if given.form == "file":
        outcome, _ = _read_file(part, where, documents)
        if not (text := outcome.text):
            return file_part(part, where, documents)
    return [{"type": "text", "text": citable_to_text(given, text, documents.cite)}]


def audio_part(part: Part, where: str, documents: Documents) -> list[Part]:
    audio = convert(part, InputAudio, where).input_audio
    return [{"type": "input_audio", "input_audio": {"data": audio.data, "format": audio.format}}]


# The types of parts that are a text and nothing else. The most frequent first; and a tuple: a type may be anything.
TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
CONVERTERS: dict[str, Callable[[Part, str, Documents], list[Part]]] = {
    **dict.fromkeys(TEXTS, text_part),
    "refusal": refusal_part,
    "input_image": image_part,
    "input_file": file_part,
    "input_audio": audio_part,
}
# Of those that no request has: readers of other protocols make them.
OWN_CONVERTERS = {CITABLE: citable_part}


def content_to_parts(content: str | list[Part], where: str, documents: Documents) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts: list[Part] = []
    for at, part in enumerate(content):
        # Nearly every part is a text, and nothing can be wrong with it: no path is made for it.
        if part.get("type") in TEXTS and isinstance(text := part.get("text"), str):
            parts.append({"type": "text", "text": text})
        else:
            parts += _part(part, f"{where}[{at}]", documents)
    return parts


def _part(part: Part, where: str, documents: Documents) -> list[Part]:
    kind = part.get("type")
    converter = CONVERTERS.get(kind) or OWN_CONVERTERS.get(kind) if isinstance(kind, str) else None
    if converter is None:
        raise InvalidRequest(
            f"`{where}.type` must be one of: {', '.join(CONVERTERS)}. It is {quoted(kind)}.",
            param=f"{where}.type",
            code="missing_required_parameter" if kind is None else "invalid_value",
        )
    return converter(part, where, documents)


def parts_to_text(parts: list[Part]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
