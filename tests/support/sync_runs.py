"""Exchanges run without an event loop, with the checks of a real gateway."""

from collections.abc import Iterable

from antiphon.core.exchange import sync_run
from antiphon.core.exchange.sync_run import PLAIN, REQUEST
from antiphon.core.exchange.sync_run import to_stream as to_stream
from antiphon.core.knowledge.dialect import Dialect
from antiphon.gateway.runs.check_process import run_check
from antiphon.library import run_exchange as run_exchange
from antiphon.wire.responses import CreateResponse


def replay(pieces: Iterable[bytes], request: CreateResponse = REQUEST, dialect: Dialect = PLAIN) -> bytes:
    return sync_run.replay(pieces, run_check, request, dialect)
