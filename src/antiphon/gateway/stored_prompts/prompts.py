"""A request that names a prompt, filled with it: its text with the variables, and what its file says about the rest."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from antiphon.errors import LONGEST_QUOTED, InvalidRequest, quoted, shortened
from antiphon.patterns import late_pattern
from antiphon.wire.responses import CreateResponse

# {{name}} in the text of a prompt.
VARIABLE = late_pattern(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
# Fields that a file may have. The request's own ones win.
FIELDS = (
    "model",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "temperature",
    "top_p",
    "max_output_tokens",
)
MEMBERS = frozenset({"id", "version", "variables"})
# The most characters of variables, each counted wherever it is put in: a prompt may name one a thousand times.
LONGEST = 16 * 1024 * 1024
# The most names in a message.
MOST_NAMED = 20


class StoredPrompt(Struct, frozen=True):
    id: str
    # None: of a file without one, which is used where no version is named.
    version: str | None
    text: str
    # By name, the values of variables that a request need not give.
    defaults: Mapping[str, str]
    # What it says of `FIELDS`.
    request: CreateResponse

    @property
    def variables(self) -> list[str]:
        return list(dict.fromkeys(VARIABLE.findall(self.text)))


class StoredPrompts:
    """All that there are, by id and version."""

    def __init__(self, prompts: Iterable[StoredPrompt] = ()) -> None:
        self._prompts: dict[str, dict[str | None, StoredPrompt]] = {}
        for each in prompts:
            self._prompts.setdefault(each.id, {})[each.version] = each

    def fill(self, request: CreateResponse) -> None:
        """In place of the prompt that it names. Raises InvalidRequest."""
        named = request.prompt or {}
        if unknown := sorted(named.keys() - MEMBERS):
            raise _wrong(f"prompt.{_short(unknown[0])}", f"it must be one of: {', '.join(sorted(MEMBERS))}")
        prompt = self._find(named.get("id"), named.get("version"))
        text = _with_variables(prompt, named.get("variables"))
        request.instructions = "\n\n".join(filter(None, (text, request.instructions)))
        for name in FIELDS:
            if getattr(request, name) is None:
                setattr(request, name, getattr(prompt.request, name))
        request.prompt = None

    def _find(self, id: Any, version: Any) -> StoredPrompt:
        versions = self._prompts.get(id) if isinstance(id, str) else None
        if versions is None:
            raise _wrong("prompt.id", f"there is no prompt {quoted(id)}. There are: {_listed(self._prompts)}")
        if version is None:
            return versions.get(None) or versions[max(versions, key=lambda each: _natural(each or ""))]
        found = versions.get(version) if isinstance(version, str) else None
        if found is None:
            there = _listed(each for each in versions if each is not None)
            raise _wrong("prompt.version", f"the prompt {id!r} has no version {quoted(version)}. It has: {there}")
        return found


def _with_variables(prompt: StoredPrompt, given: Any) -> str:
    if given is not None and not isinstance(given, dict):
        raise _wrong("prompt.variables", "it must be an object")
    known, values = prompt.variables, dict(prompt.defaults)
    for name, value in (given or {}).items():
        if name not in known:
            there = _listed(known)
            raise _wrong(f"prompt.variables.{_short(name)}", f"the prompt {prompt.id!r} has no such variable. It has: {there}")
        values[name] = _to_text(name, value)
    if missing := [name for name in known if name not in values]:
        raise _wrong("prompt.variables", f"the prompt {prompt.id!r} needs a value for: {_listed(missing)}")
    if sum(len(values[name]) for name in VARIABLE.findall(prompt.text)) > LONGEST:
        raise _wrong("prompt.variables", f"with them, the prompt {prompt.id!r} is longer than {LONGEST:,} characters")
    return VARIABLE.sub(lambda found: values[found[1]], prompt.text)


def _to_text(name: str, value: Any) -> str:
    """A text, or an item `input_text`."""
    if isinstance(value, dict) and value.get("type") == "input_text":
        value = value.get("text")
    if not isinstance(value, str):
        raise _wrong(f"prompt.variables.{name}", "only a text can be put into a prompt. Send images and files in `input`")
    return value


def _natural(version: str) -> list[tuple[int, str]]:
    """10 comes after 9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", version)]


def _short(name: str) -> str:
    """Of a client, which may send megabytes."""
    return shortened(name, LONGEST_QUOTED)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    rest = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return (", ".join(found[:MOST_NAMED]) or "none") + rest


def _wrong(param: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid `{param}`: {problem}.", param=param, code="invalid_value")
