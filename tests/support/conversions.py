"""Requests that are converted for an engine of some dialect."""

from typing import Any

import msgspec
import pytest

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.errors import InvalidRequest


def converted(input: Any = "Hi", dialect: Dialect = PLAIN, **fields: Any) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": input, **fields}))
    return request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m"))


def chat(input: Any = "Hi", dialect: Dialect = PLAIN, **fields: Any) -> dict[str, Any]:
    sent: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(converted(input, dialect, **fields).chat))
    return sent


def messages(input: Any, dialect: Dialect = PLAIN, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chat(input, dialect, **fields)["messages"]
    return found


def rejection(input: Any = "Hi", **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        converted(input, **fields)
    return raised.value
