"""Values of options as typer reads them, without pydantic where nothing is to be checked.

For every option, given or not, typer makes a pydantic adapter: 8 MB and 0.1 s of the start of a gateway. A value that may be
invalid is still left to it, with its messages.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _read_plainly(params: Iterable[Any]) -> None:
    for param in params:
        # Not public. In a typer that has another name for it, this has no effect, and pydantic is used.
        param._runtime_param = PlainValue()


class PlainValue:
    """In place of typer's own object for one option."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        kind = param.type_descriptor.annotation
        if kind == list[str] and is_list and not isinstance(value, str):
            return list(value)
        if kind is str and isinstance(value, str):
            return value
        if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
            return int(value)
        if kind is Path and os.path.isfile(value) and os.access(value, os.R_OK):
            return Path(value)
        return self._by_typer(value, param, ctx)

    @staticmethod
    def _by_typer(value: Any, param: Any, ctx: Any) -> Any:
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
