"""The tools that come without a definition: their descriptions for the model."""

from typing import Any

Parameters = dict[str, Any]

TEXT: Parameters = {"type": "string"}
NUMBER: Parameters = {"type": "integer"}
NO_PARAMETERS: Parameters = {"type": "object", "properties": {}}


def parameters(properties: dict[str, Any], *required: str) -> Parameters:
    return {"type": "object", "properties": properties, "required": list(required)}


SEARCH_PARAMETERS = parameters({"query": TEXT, "limit": NUMBER}, "query")
SERVER_SEARCH = (
    "Finds more tools. Call this first if none of the other tools can do what is needed. The tools that it finds can be called "
    "afterwards."
)
SERVER_SEARCH_PARAMETERS = parameters(
    {"query": {"type": "string", "description": "What the tool should do, in a few words; or a name from the list."}}, "query"
)

LOCAL_SHELL = "Runs a command on the user's machine and returns its output."
LOCAL_SHELL_PARAMETERS = parameters(
    {"command": {"type": "array", "items": TEXT, "minItems": 1}, "working_directory": TEXT, "timeout_ms": NUMBER}, "command"
)

SHELL = "Runs shell commands, one after another, and returns their output."
SHELL_PARAMETERS = parameters(
    {"commands": {"type": "array", "items": TEXT, "minItems": 1}, "timeout_ms": NUMBER, "max_output_length": NUMBER}, "commands"
)
SKILLS = "Skills are instructions in files. Read the files of a skill before you use it:"

APPLY_PATCH = "Creates, updates or deletes one file. `diff` is the new content with a leading + on each line, or a V4A diff."
WRITES, DELETES = ("create_file", "update_file"), ("delete_file",)


def _operation(*types: str, **more: Parameters) -> Parameters:
    properties = {"type": {"type": "string", "enum": list(types)}, "path": TEXT, **more}
    return parameters(properties, *properties)


# Chat templates read `properties`; grammars and validators read `anyOf`, which says when there has to be a diff.
APPLY_PATCH_PARAMETERS = {
    **parameters({"type": {"type": "string", "enum": [*WRITES, *DELETES]}, "path": TEXT, "diff": TEXT}, "type", "path"),
    "anyOf": [_operation(*WRITES, diff=TEXT), _operation(*DELETES)],
}

FILE_SEARCH = "Searches the user's files, and returns numbered passages of them."
QUERIES = {"type": "array", "items": TEXT, "minItems": 1}
FILE_SEARCH_PARAMETERS = parameters(
    {
        "queries": {
            **QUERIES,
            "description": "What to look for, in a few words or as a question. Several, if one is not enough.",
        }
    },
    "queries",
)

# Kinds of tool whose arguments mean something however they are written.
UNCHECKED = frozenset({"code_interpreter"})
# Kind of tool → what its calls must follow. A model may write a command as one line for a shell, and a patch like the item of
# the API, with the operation in a member of its own.
CALLS: dict[str, Parameters] = {
    # OpenAI's models write the names of tools and namespaces in `paths`.
    "server_tool_search": {
        "anyOf": [SERVER_SEARCH_PARAMETERS, parameters({"paths": {"type": "array", "items": TEXT, "minItems": 1}}, "paths")]
    },
    "file_search": {
        "anyOf": [parameters({name: {"anyOf": [QUERIES, TEXT]}}, name) for name in ("queries", "query")],
    },
    "local_shell": parameters({"command": {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}}, "command"),
    "shell": SHELL_PARAMETERS,
    "apply_patch": {"anyOf": [APPLY_PATCH_PARAMETERS, parameters({"operation": APPLY_PATCH_PARAMETERS}, "operation")]},
}
