"""The text of uploaded files."""

from typing import Literal


class UnreadableFile(Exception):
    """There is no text in it that could be read, and why."""

    def __init__(self, code: Literal["unsupported_file", "invalid_file", "server_error"], message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
