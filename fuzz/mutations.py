"""Mutations of JSON values and of bytes. All chance comes from one seeded generator, so that a case can be made again."""

import copy
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec


def _diamond(levels: int) -> dict[str, Any]:
    """A small schema that is huge once its references are replaced by what they refer to."""
    parts = {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}, {"$ref": f"#/$defs/p{n + 1}"}]} for n in range(levels)}
    return {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{levels}": {"type": "object"}}}


# Grammars and patterns that take long, or for ever, if nobody stops them.
HOSTILE_GRAMMARS = (
    ("regex", "(a+)+$"),
    ("regex", "a?" * 5000 + "a" * 5000),
    ("regex", "(" * 200 + "a" + ")*" * 200),
    ("lark", "start: " + " ".join(f'"w{number}"?' for number in range(24))),
    ("lark", "start: " + "(" * 24 + '"a"' + "?)*" * 24),
    ("lark", "start: " + " | ".join(f'"w{number}"' for number in range(2000))),
    ("lark", "start: a a\na: b b\nb: c c\nc: start? /x*/"),
    ("lark", "start: e\ne: e e | /a/ |"),
    ("lark", '%import .secret\nstart: "a"'),
)
HOSTILE_SCHEMAS = (
    _diamond(20),
    {"type": "string", "pattern": "(a+)+$"},
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
)
# In place of any value: wrong types, edges of ranges, and texts that mean something to a part of the gateway.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**30,
    1.5,
    -0.0,
    1e308,
    "",
    " ",
    "x",
    "\x00",
    "é\u2028😀",
    "</think>",
    '{"a": 1}',
    "data: [DONE]\n\n",
    "auto",
    "required",
    "resp_nothing",
    "x" * 3000,
    "</think><tool_call>" * 2000,
    *(grammar for _, grammar in HOSTILE_GRAMMARS),
    _diamond(20),
    [],
    [[]],
    ["x"],
    [None],
    {},
    {"type": None},
    {"type": "function"},
    {"type": "mystery"},
    {"": ""},
    {"$ref": "#"},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value inside this one."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


def at(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _replace(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    owner[key] = copy.deepcopy(chance.choice(ODD_VALUES))


def _remove(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    del owner[key]


def _exchange(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    """With a value from another place."""
    owner[key] = copy.deepcopy(at(whole, chance.choice(list(places(whole)))))


def _wrap(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    owner[key] = [owner[key]] if chance.random() < 0.5 else {"type": owner[key]}


def _repeat(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    if isinstance(owner, list):
        owner[key:key] = [copy.deepcopy(owner[key]) for _ in range(chance.choice((1, 2, 20)))]
    else:
        owner[f"{key}_"] = owner[key]


def _reorder(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    if isinstance(owner, list):
        chance.shuffle(owner)


def _nest(owner: Any, key: Any, chance: Random, whole: Any) -> None:
    for _ in range(chance.choice((5, 60))):
        owner[key] = {"items": owner[key]}


JSON_MUTATIONS: tuple[Callable[[Any, Any, Random, Any], None], ...] = (
    _replace,
    _replace,
    _replace,
    _remove,
    _remove,
    _exchange,
    _wrap,
    _repeat,
    _reorder,
    _nest,
)


def mutated_json(value: Any, chance: Random) -> Any:
    """A few members are changed, mostly one."""
    made = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        known = list(places(made))
        if not known:
            break
        *path, key = chance.choice(known)
        chance.choice(JSON_MUTATIONS)(at(made, path), key, chance, made)
    return made


# ---- bytes -----------------------------------------------------------------------------------------------------------


def _flip(data: bytes, chance: Random, other: bytes) -> bytes:
    where = chance.randrange(len(data))
    return data[:where] + bytes([data[where] ^ (1 << chance.randrange(8))]) + data[where + 1 :]


def _cut_off(data: bytes, chance: Random, other: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def _cut_out(data: bytes, chance: Random, other: bytes) -> bytes:
    begin, end = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
    return data[:begin] + data[end:]


def _duplicate(data: bytes, chance: Random, other: bytes) -> bytes:
    begin, end = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
    return data[:end] + data[begin:]


def _splice(data: bytes, chance: Random, other: bytes) -> bytes:
    return data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]


def _insert(data: bytes, chance: Random, other: bytes) -> bytes:
    where = chance.randrange(len(data))
    odd = chance.choice(
        (b"\x00", b"\xff", b"\xc3", b'"', b"\\", b"{", b"]", b"\n", b"\n\n", b"\r", b"data: ", b": x\n\n", b"[DONE]")
    )
    return data[:where] + odd + data[where:]


BYTE_MUTATIONS: tuple[Callable[[bytes, Random, bytes], bytes], ...] = (_flip, _cut_off, _cut_out, _duplicate, _splice, _insert)


def mutated_bytes(data: bytes, chance: Random, other: bytes) -> bytes:
    """`other`: what may be spliced in."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        if data and other:
            data = chance.choice(BYTE_MUTATIONS)(data, chance, other)
    return data


# ---- streams ---------------------------------------------------------------------------------------------------------


def _with_frames(change: Callable[[list[bytes], Random], None]) -> Callable[[bytes, Random, bytes], bytes]:
    def mutate(data: bytes, chance: Random, other: bytes) -> bytes:
        frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
        if frames:
            change(frames, chance)
        return b"".join(frames)

    return mutate


def _swap_frames(frames: list[bytes], chance: Random) -> None:
    chance.shuffle(frames)


def _repeat_frame(frames: list[bytes], chance: Random) -> None:
    frames.insert(chance.randrange(len(frames) + 1), chance.choice(frames))


def _drop_frame(frames: list[bytes], chance: Random) -> None:
    del frames[chance.randrange(len(frames))]


def _change_chunk(frames: list[bytes], chance: Random) -> None:
    """A value of one chunk is replaced, removed or moved."""
    number = chance.randrange(len(frames))
    try:
        chunk = msgspec.json.decode(frames[number].removeprefix(b"data: "))
    except msgspec.DecodeError:
        return
    frames[number] = b"data: " + msgspec.json.encode(mutated_json(chunk, chance)) + b"\n\n"


FRAME_MUTATIONS = tuple(
    map(_with_frames, (_change_chunk, _change_chunk, _change_chunk, _swap_frames, _repeat_frame, _drop_frame))
)


def mutated_stream(data: bytes, chance: Random, other: bytes) -> bytes:
    """Recorded bytes with changed frames, changed bytes, or both."""
    if chance.random() < 0.7:
        for _ in range(chance.choice((1, 1, 2))):
            data = chance.choice(FRAME_MUTATIONS)(data, chance, other)
    return data if data and chance.random() < 0.5 else mutated_bytes(data, chance, other)
