"""Patches as functions: write_file, edit_file and delete_file, each as one operation on one file.

Two tools take them: the freeform `apply_patch` of Codex, whose input is a patch, and the built-in one of the API, whose calls
are operations. A patch that no function expresses (several files or hunks, a move) stays a patch.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from antiphon.core.checks.work import PATCH_BEGIN, PATCH_END
from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.easy_function import ONE_LINE, PATH, EasyFunction, Members, to_path

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
CREATE, UPDATE, DELETE = "create_file", "update_file", "delete_file"
# Type of operation → how its part of a patch begins.
HEADERS = {CREATE: "*** Add File: ", UPDATE: "*** Update File: ", DELETE: "*** Delete File: "}
HUNK = "@@"
INDENT = 2  # of JSON that a model writes as the content of a file, without making a text of it


class Operation(NamedTuple):
    type: str
    path: str
    diff: tuple[str, ...] = ()


# ---- texts and their lines -------------------------------------------------------------------------------------------


def text_to_lines(text: str) -> list[str]:
    """A line ends at a line feed and nowhere else, and so does the last one, with or without it: a patch has whole lines."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def lines_to_text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _lines(value: Any) -> list[str] | None:
    """Of a text, or of a list of lines."""
    if isinstance(value, str):
        return text_to_lines(value)
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return [line for each in value for line in text_to_lines(each) or [""]]
    return None


def _content(value: Any) -> list[str] | None:
    lines = _lines(value)
    if lines is None and isinstance(value, dict | list):
        # The file is JSON, and so are the arguments.
        lines = text_to_lines(msgspec.json.format(msgspec.json.encode(value), indent=INDENT).decode())
    return lines


# ---- operations ------------------------------------------------------------------------------------------------------


def write_to_operation(call: Members) -> Operation | None:
    path, lines = to_path(call.get("path")), _content(call.get("content"))
    if path is None or lines is None:
        return None
    # The grammar requires a line.
    return Operation(CREATE, path, tuple(f"+{line}" for line in lines or [""]))


def operation_to_write(operation: Operation) -> Members | None:
    if operation.type != CREATE or not operation.diff or not all(line.startswith("+") for line in operation.diff):
        return None
    return {"path": operation.path, "content": lines_to_text([line[1:] for line in operation.diff])}


def edit_to_operation(call: Members) -> Operation | None:
    path, old, new = to_path(call.get("path")), _lines(call.get("old_lines")), _lines(call.get("new_lines"))
    if path is None or old is None or new is None:
        return None
    # Without old lines, Codex adds the new ones at the end of the file. Without either, it reports an empty hunk.
    return Operation(UPDATE, path, (HUNK, *(f"-{line}" for line in old), *(f"+{line}" for line in new)))


def operation_to_edit(operation: Operation) -> Members | None:
    """Lines that stay as they are, which other models put around a change, are among the old and the new ones."""
    diff = operation.diff[1:] if operation.diff[:1] == (HUNK,) else operation.diff
    if operation.type != UPDATE or not operation.diff or not all(line[:1] in ("-", "+", " ") for line in diff):
        return None
    old = lines_to_text([line[1:] for line in diff if line[0] != "+"])
    new = lines_to_text([line[1:] for line in diff if line[0] != "-"])
    return {"path": operation.path, "old_lines": old, "new_lines": new}


def delete_to_operation(call: Members) -> Operation | None:
    path = to_path(call.get("path"))
    return None if path is None else Operation(DELETE, path)


def operation_to_delete(operation: Operation) -> Members | None:
    return None if operation.type != DELETE or operation.diff else {"path": operation.path}


# ---- as the two tools take them --------------------------------------------------------------------------------------


def operation_to_patch(operation: Operation) -> Members:
    return {"input": lines_to_text([PATCH_BEGIN, HEADERS[operation.type] + operation.path, *operation.diff, PATCH_END])}


def patch_to_operation(call: Members) -> Operation | None:
    text = call.get("input")
    lines = text_to_lines(text) if isinstance(text, str) else []
    if len(lines) < 3 or lines[0] != PATCH_BEGIN or lines[-1] != PATCH_END:
        return None
    for kind, header in HEADERS.items():
        if lines[1].startswith(header):
            return _operation(kind, lines[1].removeprefix(header), lines[2:-1])
    return None


def operation_to_built_in(operation: Operation) -> Members:
    members: Members = {"type": operation.type, "path": operation.path}
    return members if operation.type == DELETE else {**members, "diff": "\n".join(operation.diff)}


def built_in_to_operation(call: Members) -> Operation | None:
    diff = call.get("diff", "")
    return _operation(call.get("type"), call.get("path"), text_to_lines(diff)) if isinstance(diff, str) else None


def _operation(kind: Any, path: Any, diff: Sequence[str]) -> Operation | None:
    """None: a function would write it in another way."""
    return Operation(kind, path, tuple(diff)) if kind in (CREATE, UPDATE, DELETE) and path and to_path(path) == path else None


# ---- the functions ---------------------------------------------------------------------------------------------------

LINES = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
CONTENT = {"anyOf": [TEXT, {"type": "array"}, {"type": "object"}]}

WRITE = "Writes a file. It is created, or everything in it is replaced."
WHOLE_TEXT = {"type": "string", "description": "The whole text of the file."}

EDIT = (
    "Changes a part of a file. The first place in the file that has old_lines gets new_lines in their place. "
    "Read the file before you change it."
)
OLD_LINES = {
    "type": "string",
    "description": (
        "The lines to replace: whole lines, exactly as they are in the file, and enough of them to be found only once. "
        "If this is empty, new_lines are added at the end of the file."
    ),
}
NEW_LINES = {
    "type": "string",
    "description": "The whole lines that take their place. If this is empty, the old lines are removed.",
}

REMOVE = "Deletes a file."


class FileFunction(NamedTuple):
    name: str
    description: str
    to_operation: Callable[[Members], Operation | None]
    from_operation: Callable[[Operation], Members | None]
    # Each argument: its schema as the model sees it, and the schema that its value must follow.
    members: dict[str, tuple[Members, Members]]


FILE_FUNCTIONS = (
    FileFunction(
        "write_file",
        WRITE,
        write_to_operation,
        operation_to_write,
        {"path": (PATH, ONE_LINE), "content": (WHOLE_TEXT, CONTENT)},
    ),
    FileFunction(
        "edit_file",
        EDIT,
        edit_to_operation,
        operation_to_edit,
        {"path": (PATH, ONE_LINE), "old_lines": (OLD_LINES, LINES), "new_lines": (NEW_LINES, LINES)},
    ),
    FileFunction("delete_file", REMOVE, delete_to_operation, operation_to_delete, {"path": (PATH, ONE_LINE)}),
)


def _easy(
    function: FileFunction,
    to_tool: Callable[[Operation], Members],
    from_tool: Callable[[Members], Operation | None],
    carrier: Members,
    carried_in: str,
) -> EasyFunction:
    members = function.members
    return EasyFunction(
        function.name,
        function.description,
        parameters=parameters({name: shown for name, (shown, _) in members.items()}, *members),
        accepts=parameters({name: accepted for name, (_, accepted) in members.items()}, *members),
        to_tool=_composed(function.to_operation, to_tool),
        from_tool=_composed(from_tool, function.from_operation),
        carrier=carrier,
        carried_in=carried_in,
    )


def _composed(first: Callable[[A], B | None], second: Callable[[B], C | None]) -> Callable[[A], C | None]:
    def both(value: A) -> C | None:
        between = first(value)
        return None if between is None else second(between)

    return both


FREEFORM = tuple(_easy(each, operation_to_patch, patch_to_operation, {}, "input") for each in FILE_FUNCTIONS)
BUILT_IN = tuple(
    _easy(each, operation_to_built_in, built_in_to_operation, {"type": UPDATE, "path": ""}, "diff") for each in FILE_FUNCTIONS
)
