"""Takes out of the requests of Claude Code what is not ours: its own texts, and what says something of the machine.

The same text always becomes the same one, in every request: what began alike begins alike afterwards.
"""

import re
from typing import Any

import msgspec
from sessions.session import place
from transcripts.differences import Body
from transcripts.normal_forms import Normaliser

from antiphon.core.protocols.messages.read import BILLING

# What Claude Code itself says in the results of tools.
OWN_WORDS = re.compile(
    r"(?<=<system-reminder>).*?(?=</system-reminder>)|(?<=\[Subagent hand-back\]).*?(?=\n  )|(?<=\(use SendMessage ).*?(?=\))",
    re.DOTALL,
)
# Times, and ids of agents.
UNSTABLE = (
    (re.compile(r"(duration_ms|total_tokens|subagent_tokens): \d+"), r"\1: 1"),
    (re.compile(r"\ba[0-9a-f]{16}\b"), "a0000000000000000"),
)


class Scrubber:
    """`folders`: of the machine, and what stands for them. `said`: what the user has said, which is ours."""

    def __init__(self, folders: dict[str, str], said: set[str]) -> None:
        self._folders = folders
        self._said = said
        self._numbers: dict[str, int] = {}
        self._signatures: dict[str, str] = {}
        self._ids = Normaliser()

    def scrubbed(self, body: Body) -> Body:
        changed = {
            "system": [self._system(block) for block in body["system"]],
            "messages": [self._message(message) for message in body["messages"]],
            "metadata": {"user_id": self._user(body["metadata"]["user_id"])},
        }
        if "tools" in body:
            changed["tools"] = self._described(body["tools"])
        text = msgspec.json.encode(body | changed).decode()
        for folder, instead in self._folders.items():
            text = text.replace(folder, instead)
        found: Body = self._ids.normal(msgspec.json.decode(text))
        return found

    def _instead(self, text: str) -> str:
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        return place(number, len(text))

    @staticmethod
    def _user(user_id: str) -> str:
        known = msgspec.json.decode(user_id)
        return msgspec.json.encode({**known, "device_id": "0" * 64, "account_uuid": ""}).decode()

    def _system(self, block: Body) -> Body:
        return block if block["text"].startswith(BILLING) else block | {"text": self._instead(block["text"])}

    def _described(self, value: Any) -> Any:
        """A part of a tool. Its names and types stay, whatever they are."""
        if isinstance(value, list):
            return [self._described(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self._instead(member) if name == "description" and isinstance(member, str) else self._described(member)
            for name, member in value.items()
        }

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _message(self, message: Body) -> Body:
        content = message["content"]
        if isinstance(content, str):
            return message | {"content": self._text(content)}
        return message | {"content": [self._block(block) for block in content]}

    def _text(self, text: str) -> str:
        return text if text in self._said else self._instead(text)

    def _block(self, block: Body) -> Body:
        match block["type"]:
            case "text":
                return block | {"text": self._text(block["text"])}
            case "thinking":
                number = self._signatures.setdefault(block["signature"], f"signature {len(self._signatures) + 1}")
                return block | {"signature": number}
            case "tool_result":
                return block | {"content": self._result(block["content"])}
        return block

    def _result(self, content: Any) -> Any:
        """What a tool has put out is ours, but for what Claude Code says in it."""
        if isinstance(content, str):
            text = OWN_WORDS.sub(lambda found: self._instead(found[0]), content)
            for pattern, instead in UNSTABLE:
                text = pattern.sub(instead, text)
            return text
        return [each | {"text": self._result(each["text"])} if each["type"] == "text" else each for each in content]
