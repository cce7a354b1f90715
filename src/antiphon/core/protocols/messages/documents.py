"""Documents, search results and images of a request → parts of a message. Those that may be cited have numbers of their own:
the answer says by these which of them it means."""

from collections.abc import Callable
from typing import Any

from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest
from antiphon.wire.input_items import CITABLE, Item
from antiphon.wire.messages import Block, DocumentInput, ImageInput, SearchResultInput, Source, TextInput

# The parts of a list of blocks at a path.
Inside = Callable[[str | list[Block], str], list[Item]]


class DocumentReader:
    """Counts those of one request."""

    def __init__(self) -> None:
        self._documents = self._results = 0
        # Whether any of them may be cited.
        self.cites = False

    def image(self, image: ImageInput, where: str) -> Item:
        source = image.source
        if source.type == "file":
            return {"type": "input_image", "file_id": _member(source, "file_id", where)}
        if source.type == "url":
            return {"type": "input_image", "image_url": _member(source, "url", where)}
        return {"type": "input_image", "image_url": _data_url(source, where)}

    def search_result(self, result: SearchResultInput, where: str) -> Item:
        texts = [convert(each, TextInput, f"{where}.content[{at}]").text for at, each in enumerate(result.content)]
        index, self._results = self._results, self._results + 1
        if (result.citations or {}).get("enabled"):
            about = {"index": index, "title": result.title, "source": result.source}
            return self._citable("search_result", about, {"texts": texts})
        return _text("\n".join((f"{result.title} ({result.source})", *texts)))

    def document(self, document: DocumentInput, where: str, inside: Inside) -> list[Item]:
        index, self._documents = self._documents, self._documents + 1
        if not (document.citations or {}).get("enabled"):
            return _plain(document, where, inside)
        about = {"index": index, "title": document.title}
        return [*_texts(document.context), *self._cited(document, about, where, inside)]

    def _cited(self, document: DocumentInput, about: Item, where: str, inside: Inside) -> list[Item]:
        source = document.source
        match source.type:
            case "text":
                return [self._citable("text", about, {"texts": [_member(source, "data", where)]})]
            case "content":
                parts = inside(source.content or [], f"{where}.source.content")
                texts = [part["text"] for part in parts if part["type"] == "input_text"]
                # An image has no words to cite.
                others = [part for part in parts if part["type"] != "input_text"]
                return [self._citable("blocks", about, {"texts": texts}), *others]
        return [self._citable("file", about, _file(document, where))]

    def _citable(self, form: str, about: Item, members: Item) -> Item:
        self.cites = True
        return {"type": CITABLE, "form": form, **about, **members}


def _plain(document: DocumentInput, where: str, inside: Inside) -> list[Item]:
    """What the client says about it comes first. The title of a file that is sent is its name."""
    source, context = document.source, _texts(document.context)
    about = [*_texts(document.title), *context]
    match source.type:
        case "text":
            return [*about, *_texts(_member(source, "data", where))]
        case "content":
            return [*about, *inside(source.content or [], f"{where}.source.content")]
        case "base64":
            return [*context, {"type": "input_file", **_file(document, where)}]
    return [*about, {"type": "input_file", **_file(document, where)}]


def _file(document: DocumentInput, where: str) -> Item:
    source = document.source
    if source.type == "file":
        return {"file_id": _member(source, "file_id", where)}
    if source.type == "url":
        return {"file_url": _member(source, "url", where)}
    named = {"filename": document.title} if document.title else {}
    return {"file_data": _data_url(source, where), **named}


def _text(text: str) -> Item:
    return {"type": "input_text", "text": text}


def _texts(text: str | None) -> list[Item]:
    return [_text(text)] if text else []


def _data_url(source: Source, where: str) -> str:
    return f"data:{source.media_type or 'application/octet-stream'};base64,{_member(source, 'data', where)}"


def _member(source: Source, name: str, where: str) -> Any:
    if (value := getattr(source, name)) is None:
        param = f"{where}.source.{name}"
        raise InvalidRequest(f"Missing required parameter: `{param}`.", param=param, code="missing_required_parameter")
    return value
