"""Tools that the client runs, and whose schema is Anthropic's: an engine gets it from here.

A tool is one function. A toolset is a group of them: the calls of its members have their names, and the set's.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from antiphon.wire.input_items import Tool

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer"}
PATH: Schema = {"type": "string", "description": "The absolute path of the file or folder."}
LINES: Schema = {"type": "array", "items": COUNT, "description": "The first and the last line to show."}
POINT: Schema = {"type": "array", "items": COUNT, "description": "x and y, in pixels."}
REGION: Schema = {"type": "array", "items": COUNT, "description": "x0, y0, x1 and y1, in pixels."}
LINE: Schema = {"type": "integer", "description": "The text is inserted after this line; 0: at the beginning."}
SECONDS: Schema = {"type": "number", "description": "In seconds."}
WHOLE_SECONDS: Schema = {**SECONDS, **COUNT}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


DIRECTION = _one_of("up", "down", "left", "right")


def parameters(properties: Schema, *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


class KnownTool(NamedTuple):
    description: str
    parameters: dict[str, Any]


BASH = KnownTool(
    "Runs a command in a Bash session that stays open between calls.",
    parameters(
        {"command": TEXT, "restart": {"type": "boolean", "description": "Starts a new session in place of the command."}}
    ),
)
EDITED: Schema = {
    "path": PATH,
    "file_text": TEXT,
    "old_str": TEXT,
    "new_str": TEXT,
    "insert_line": LINE,
    "insert_text": TEXT,
    "view_range": LINES,
}
TEXT_EDITOR = KnownTool(
    "Views, creates and changes files.",
    parameters({"command": _one_of("view", "create", "str_replace", "insert", "undo_edit"), **EDITED}, *("command", "path")),
)
MEMORY = KnownTool(
    "Keeps notes in files below /memories, which stay for later conversations.",
    parameters(
        {
            "command": _one_of("view", "create", "str_replace", "insert", "delete", "rename"),
            **EDITED,
            "old_path": PATH,
            "new_path": PATH,
        },
        "command",
    ),
)
COMPUTER = KnownTool(
    "Controls a computer with screen, keyboard and mouse.",
    parameters(
        {
            "action": {"type": "string", "description": "key, type, left_click, scroll, wait, screenshot, and others."},
            "coordinate": POINT,
            "start_coordinate": POINT,
            "text": TEXT,
            "scroll_direction": DIRECTION,
            "scroll_amount": COUNT,
            "duration": SECONDS,
            "region": REGION,
        },
        "action",
    ),
)

# By the type of the tool, without the day of its version.
KNOWN: Mapping[str, KnownTool] = {"bash": BASH, "text_editor": TEXT_EDITOR, "memory": MEMORY, "computer": COMPUTER}


def screen_of(tool: Tool) -> str:
    """What a client says of its screen belongs to the description."""
    width, height = tool.get("display_width_px"), tool.get("display_height_px")
    size = f" The screen is {width} pixels wide and {height} high." if width and height else ""
    return size + (" The action zoom shows a region larger." if tool.get("enable_zoom") else "")


# ---- toolsets --------------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    description: str
    properties: Schema = {}
    # How many of the properties, from the first one on, a call must have.
    required: int = 0


CHORD = 'A key, or several with + between them, such as "ctrl+s".'
HELD: Schema = {"type": "string", "description": "Keys to hold down meanwhile."}
AT_CURSOR: Schema = {
    "coordinate": {**POINT, "description": "x and y, in pixels. Without it, where the cursor is."},
    "text": HELD,
}
COMPUTER_MEMBERS: Mapping[str, Member] = {
    "key": Member("Presses keys.", {"text": {**TEXT, "description": CHORD}, "repeat": COUNT}, 1),
    "hold_key": Member("Holds keys down.", {"text": {**TEXT, "description": CHORD}, "duration": WHOLE_SECONDS}, 2),
    "type": Member("Types a text.", {"text": TEXT}, 1),
    "cursor_position": Member("Says where the cursor is."),
    "mouse_move": Member("Moves the cursor there, without a click.", {"coordinate": POINT}, 1),
    "left_mouse_down": Member("Presses the left mouse button, and holds it."),
    "left_mouse_up": Member("Releases the left mouse button."),
    "left_click": Member("Clicks the left mouse button.", AT_CURSOR),
    "left_click_drag": Member(
        "Drags from one point to another.", {"coordinate": POINT, "start_coordinate": POINT, "text": HELD}, 2
    ),
    "right_click": Member("Clicks the right mouse button.", AT_CURSOR),
    "middle_click": Member("Clicks the middle mouse button.", AT_CURSOR),
    "double_click": Member("Double-clicks the left mouse button.", AT_CURSOR),
    "triple_click": Member("Triple-clicks the left mouse button.", AT_CURSOR),
    "scroll": Member("Scrolls.", {"scroll_amount": COUNT, "scroll_direction": DIRECTION, **AT_CURSOR}, 2),
    "wait": Member("Waits.", {"duration": WHOLE_SECONDS}, 1),
    "screenshot": Member("Takes a screenshot."),
    "zoom": Member("Shows a region of the screen larger.", {"region": REGION}, 1),
}

TAB: Schema = {"tab_id": {**TEXT, "description": "Without it, the active tab."}}
SPOT: Schema = {
    "type": "object",
    "properties": {"type": _one_of("coordinate"), "x": COUNT, "y": COUNT},
    "required": ["type", "x", "y"],
}
ELEMENT: Schema = {
    "type": "object",
    "properties": {"type": _one_of("ref"), "ref": {**TEXT, "description": "From read_page or find."}},
    "required": ["type", "ref"],
}
TARGET: Schema = {"anyOf": [SPOT, ELEMENT]}
KEYS: Schema = {"text": {**TEXT, "description": CHORD}}
CLICK: Schema = {"target": TARGET, "modifiers": HELD, **TAB}
BROWSER_MEMBERS: Mapping[str, Member] = {
    "navigate": Member("Opens a page.", {"url": {**TEXT, "description": "Or back, forward, reload."}, **TAB}, 1),
    "list_tabs": Member("Lists the open tabs."),
    "new_tab": Member("Opens an empty tab."),
    "switch_tab": Member("Makes a tab the active one.", {"tab_id": TEXT}, 1),
    "close_tab": Member("Closes a tab.", {"tab_id": TEXT}, 1),
    "read_page": Member(
        "Shows the elements of the page as a tree, with references such as ref_7.",
        {"depth": COUNT, "filter": _one_of("all", "interactive"), "ref": TEXT, **TAB},
    ),
    "get_page_text": Member("Shows the text of the page.", TAB),
    "read_console": Member("Shows what the console has written since the last time.", TAB),
    "read_network": Member("Shows the requests of the page since the last time.", TAB),
    "find": Member("Finds elements by what is said of them.", {"query": TEXT, **TAB}, 1),
    "form_input": Member(
        "Sets the value of a form element.",
        {"target": ELEMENT, "value": {"type": ["string", "number", "boolean"]}, **TAB},
        2,
    ),
    "file_upload": Member(
        "Gives files to a file input.",
        {
            "target": ELEMENT,
            "paths": {"type": "array", "items": TEXT},
            "document_ids": {"type": "array", "items": TEXT},
            **TAB,
        },
        1,
    ),
    "scroll_to": Member("Scrolls an element into view.", {"target": ELEMENT, **TAB}, 1),
    "screenshot": Member("Takes a screenshot of what the tab shows.", TAB),
    "zoom": Member("Shows a region larger.", {"region": REGION, **TAB}, 1),
    "left_click": Member("Clicks.", CLICK, 1),
    "right_click": Member("Clicks the right mouse button.", CLICK, 1),
    "middle_click": Member("Clicks the middle mouse button.", CLICK, 1),
    "double_click": Member("Double-clicks.", CLICK, 1),
    "triple_click": Member("Triple-clicks, which mostly selects a line.", CLICK, 1),
    "hover": Member("Moves the pointer there, without a click.", {"target": TARGET, **TAB}, 1),
    "left_click_drag": Member("Drags from one point to another.", {"from": SPOT, "target": SPOT, **TAB}, 2),
    "left_mouse_down": Member("Presses the left mouse button, and holds it.", {"target": SPOT, **TAB}, 1),
    "left_mouse_up": Member("Releases the left mouse button.", {"target": SPOT, **TAB}, 1),
    "mouse_move": Member("Moves the pointer there, without a click.", {"target": SPOT, **TAB}, 1),
    "scroll": Member("Scrolls.", {"scroll_direction": DIRECTION, "target": SPOT, "scroll_amount": COUNT, **TAB}, 2),
    "type": Member("Types a text.", {"text": TEXT, **TAB}, 1),
    "key": Member("Presses keys.", {**KEYS, "repeat": COUNT, **TAB}, 1),
    "hold_key": Member("Holds keys down.", {**KEYS, "duration": SECONDS, **TAB}, 2),
    "wait": Member("Waits.", {"duration": SECONDS, **TAB}, 1),
    "javascript_exec": Member("Runs JavaScript in the page, and shows the value of its last line.", {"text": TEXT, **TAB}, 1),
}


class Toolset(NamedTuple):
    # By which its calls say where they belong.
    name: str
    description: str
    members: Mapping[str, Member]


TOOLSETS: Mapping[str, Toolset] = {
    "computer_toolset": Toolset("computer", "They control a computer with screen, keyboard and mouse.", COMPUTER_MEMBERS),
    "browser_toolset": Toolset("browser", "They control a web browser.", BROWSER_MEMBERS),
}


def member_to_function(name: str, member: Member) -> Tool:
    required = [*member.properties][: member.required]
    schema = parameters(member.properties, *required)
    return {"type": "function", "name": name, "description": member.description, "parameters": schema}
