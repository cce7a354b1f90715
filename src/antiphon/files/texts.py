"""The text of uploaded files."""

import asyncio
from pathlib import Path
from typing import Any, Literal


class UnreadableFile(Exception):
    """There is no text in it that could be read, and why."""

    def __init__(self, code: Literal["unsupported_file", "invalid_file", "server_error"], message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class FileTexts:
    def __init__(self, run_check: Any) -> None:
        pass

    async def text_of(self, path: Path, filename: str, content_type: str | None, owner: str) -> str:
        try:
            return await asyncio.to_thread(path.read_text, "utf-8")
        except UnicodeDecodeError:
            raise UnreadableFile("unsupported_file", "It is not text.") from None
