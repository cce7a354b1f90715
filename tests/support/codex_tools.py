"""Tools as Codex 0.166 defines them, in fewer words: those that small models get in another form."""

from typing import Any

PATCH_GRAMMAR = """\
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

APPLY_PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "This is a FREEFORM tool to edit files, so do not wrap the patch in JSON.",
    "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
}
EXEC_COMMAND: dict[str, Any] = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command in a PTY, returning output or a session ID for ongoing interaction.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "Shell command to execute."},
            "login": {"type": "boolean"},
            "max_output_tokens": {"type": "number"},
            "tty": {"type": "boolean"},
            "workdir": {"type": "string", "description": "Working directory for the command. Defaults to the turn cwd."},
            "yield_time_ms": {"type": "number", "description": "Wait before yielding output. Defaults to 10000 ms."},
        },
        "required": ["cmd"],
        "additionalProperties": False,
    },
}
WRITE_STDIN: dict[str, Any] = {
    "type": "function",
    "name": "write_stdin",
    "description": "Writes characters to an existing unified exec session and returns recent output.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "chars": {"type": "string"},
            "max_output_tokens": {"type": "number"},
            "session_id": {"type": "number"},
            "yield_time_ms": {"type": "number"},
        },
        "required": ["session_id"],
        "additionalProperties": False,
    },
}
