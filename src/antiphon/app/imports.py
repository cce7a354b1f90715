"""How a process of a gateway imports its modules: with less work than Python and aiohttp do by themselves.

Of all instructions up to the first answer, a fifth was OpenSSL, which read the certificates of the machine twice, for the
contexts that aiohttp makes when it is imported; and a thirtieth was the search for garbage among modules, which are none.
"""

import gc
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _LateContext(ssl.SSLContext):
    """Reads the certificates of the machine with the first connection that is made with it. From then on it is an ordinary
    context: they are read into this very object, so it does not matter who has it."""

    __slots__ = ()

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self._complete().wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return self._complete().wrap_socket(*arguments, **options)

    def _complete(self) -> ssl.SSLContext:
        # In this order, another thread never finds an ordinary context without them.
        self.set_default_verify_paths()
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        return self


def _read_later(context: ssl.SSLContext) -> None:
    context.__class__ = _LateContext


@contextmanager
def fast_imports() -> Iterator[None]:
    """Around the first imports of a process, while it has no other threads. A context of TLS that is made within reads the
    certificates of the machine when it is first used. What has been imported is not looked at by the garbage collector."""
    gc.disable()
    # Read where the class inherits it from, so that nothing is left of this afterwards.
    ssl.SSLContext.set_default_verify_paths = _read_later  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths
        gc.freeze()
        gc.enable()
