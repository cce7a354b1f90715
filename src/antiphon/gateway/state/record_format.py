"""The store's record format: items and responses as JSON. They are encoded and decoded here, and nowhere else."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, structs

from antiphon.core.events.json_pieces import JsonPieces, long_json
from antiphon.core.events.lifecycle import output_text
from antiphon.core.exchange.steps import ToolCall
from antiphon.gateway.usage.budgets import Budget
from antiphon.store.records import UNFINISHED, Listed, Record
from antiphon.store.records import Item as StoredItem
from antiphon.wire.input_items import Item
from antiphon.wire.responses import OutputItem, Response

_to_item = msgspec.json.Decoder(Item).decode
_to_items = msgspec.json.Decoder(list[Item]).decode
_to_output = msgspec.json.Decoder(list[OutputItem]).decode
_to_response = msgspec.json.Decoder(Response).decode
_to_call = msgspec.json.Decoder(ToolCall).decode
_to_budget = msgspec.json.Decoder(Budget).decode
_encode = msgspec.json.Encoder().encode


def decode_budget(limits: bytes) -> Budget:
    return _to_budget(limits)


def encode_items(items: Sequence[Item] | Sequence[OutputItem]) -> bytes:
    return _encode(items)


def long_items(items: Sequence[OutputItem]) -> JsonPieces | None:
    """The same in pieces. None: they have no long text."""
    return long_json(list(items))


def decode_items(*encoded: bytes) -> list[Item]:
    """Lists of items as one list."""
    return [item for each in encoded for item in _to_items(each)]


def items_to_stored(items: Iterable[Item]) -> list[StoredItem]:
    return [StoredItem(item["id"], _encode(item)) for item in items]


def stored_to_items(stored: Iterable[StoredItem]) -> list[Item]:
    return [_to_item(item.data) for item in stored]


def decode_found(found: Mapping[str, bytes]) -> dict[str, Item]:
    return {id: _to_item(data) for id, data in found.items()}


def decode_beginning(row: Listed) -> list[Item]:
    """The items that a list shows of a response, or the one of a conversation."""
    if row.beginning is None:
        return []
    return _to_items(row.beginning) if row.items is None else [_to_item(row.beginning)]


def decode_listed_settings(row: Listed) -> Item:
    return _to_item(row.settings) if row.settings is not None else {}


def output_to_items(output: Sequence[OutputItem]) -> list[Item]:
    items: list[Item] = msgspec.to_builtins(output)
    return items


def encode_settings(response: Response) -> bytes:
    """The response object without its output, which a record has beside it."""
    return _encode(structs.replace(response, output=[], output_text=UNSET))


def record_to_response(record: Record) -> Response:
    """The response object as it was stored, with its current status."""
    response = _to_response(record.settings)
    response.status = record.status
    response.output = _to_output(record.output)
    if record.status not in UNFINISHED:
        response.output_text = output_text(response.output)
    return response


def encode_call(call: ToolCall) -> bytes:
    return _encode(call)


def decode_calls(calls: Iterable[bytes]) -> list[ToolCall]:
    return [_to_call(call) for call in calls]


def encode_metadata(metadata: dict[str, str]) -> bytes:
    return _encode(metadata)


def decode_metadata(encoded: bytes) -> Item:
    return _to_item(encoded)
