"""What the requests of the probes contain. A verdict depends on the structure of an answer, never on its wording."""

import struct
import zlib
from base64 import b64encode
from typing import Any

import msgspec

from antiphon.errors import UNREADABLE

HELLO = [{"role": "user", "content": "Say hello."}]
# Words that no template contains and no model writes by itself.
MARK = "zephyrquill"
ODD_WORDS = ["quuxible", "plughwise"]
SHORT = "Be brief."
LONG = f"Be brief, and know that the word of the day is {MARK}, however little that may matter to anyone here."

LONG_MESSAGE = {"messages": [{"role": "user", "content": LONG}]}
SHORT_MESSAGE = {"messages": [{"role": "user", "content": SHORT}]}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": ODD_WORDS}, "number": {"type": "integer"}},
    "required": ["word", "number"],
    "additionalProperties": False,
}
JSON_FORMAT = {"type": "json_schema", "json_schema": {"name": "odd_words", "strict": True, "schema": SCHEMA}}


def follows_schema(text: str) -> bool:
    # Most gateways check nothing against a schema themselves: they save 3 MB without the import.
    import jsonschema_rs

    try:
        return jsonschema_rs.is_valid(SCHEMA, msgspec.json.decode(text))
    except UNREADABLE:
        return False


def begins_as_schema(text: str) -> bool:
    """Whether a text that was cut off may follow the schema: every string in it is one of the schema's."""
    words = text.split('"')[1::2]
    known = {*SCHEMA["properties"], *ODD_WORDS}
    whole = words[:-1] if text.count('"') % 2 else words
    return text.lstrip()[:1] in ("", "{") and set(whole) <= known


def tool(name: str, description: str, *, strict: bool | None = None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name, "description": description, "parameters": SCHEMA}
    return {"type": "function", "function": function if strict is None else {**function, "strict": strict}}


FIRST, SECOND = "record_zephyr", "record_quill"
TOOLS = [tool(FIRST, SHORT), tool(SECOND, SHORT)]
LONG_TOOLS = [tool(FIRST, LONG), tool(SECOND, SHORT)]
STRICT_TOOLS = [tool(FIRST, SHORT, strict=True)]
TWO_CALLS = [
    {
        "role": "user",
        "content": f"Call {FIRST} with {ODD_WORDS[0]} and 1, and {SECOND} with {ODD_WORDS[1]} and 2. Make both calls at once.",
    }
]

# It stands in the description alone: a grammar for the call cannot spell it out. A model cannot guess the tool's name, either.
CODE_WORD, CODE_WORD_TOOL = "quorvane-5183", "relay_brackwell"
CODE_WORD_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": CODE_WORD_TOOL,
            "description": f"Hands over the code word. The code word is {CODE_WORD}.",
            "parameters": {
                "type": "object",
                "properties": {"code_word": {"type": "string"}},
                "required": ["code_word"],
                "additionalProperties": False,
            },
        },
    }
]
FOR_CODE_WORD = [
    {
        "role": "user",
        "content": "Hand over the code word: call the tool for that. Its description says what the code word is.",
    }
]

PUZZLE = [{"role": "user", "content": "What is 17 + 25? Think it through first."}]
THOUGHT = "Hmm.\\n</think>\\n\\nYes."
OPENED_THOUGHT = f'root ::= "{THOUGHT}"'
WHOLE_THOUGHT = f'root ::= "<think>\\n{THOUGHT}"'


def _png(side: int) -> bytes:
    """A white square. Not a single pixel: some models reject images that are smaller than their patches."""

    def block(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff" * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", header) + block(b"IDAT", zlib.compress(rows)) + block(b"IEND", b"")


_QUESTION = {"type": "text", "text": "What is this?"}
_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + b64encode(_png(64)).decode()}}
IMAGE = [{"role": "user", "content": [_QUESTION, _PICTURE]}]
WITHOUT_IMAGE = [{"role": "user", "content": [_QUESTION]}]

# Engines cache whole blocks of a prompt, of up to a few hundred tokens.
LONG_PROMPT = [{"role": "user", "content": " ".join(f"{number} and" for number in range(1, 201)) + " so on?"}]
