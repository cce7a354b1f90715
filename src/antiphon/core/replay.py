"""A recorded engine stream → the Responses events that it becomes."""

import itertools
from collections.abc import Iterable

from antiphon.core.demands import NO_DEMANDS, Demands
from antiphon.core.engine_stream import EngineStream
from antiphon.core.event_style import Style
from antiphon.core.sse import DONE, event_to_frame
from antiphon.core.text_calls import CallFinder
from antiphon.core.think_tags import Start
from antiphon.core.translator import Translator
from antiphon.errors import ApiError
from antiphon.wire.responses import Response

PLAIN_STYLE = Style()


def replay(
    pieces: Iterable[bytes],
    *,
    style: Style = PLAIN_STYLE,
    start: Start = Start.UNKNOWN,
    finder: CallFinder | None = None,
    demands: Demands = NO_DEMANDS,
) -> bytes:
    """Ids and times are counted, not drawn: the same recording gives the same bytes."""
    numbers = itertools.count(1)
    translator = Translator(
        Response(id="resp_replay", created_at=0, model="replay"),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        encode=event_to_frame,
        style=style,
        demands=demands,
    )
    stream = EngineStream(start, finder)
    translator.start()
    try:
        for piece in pieces:
            stream.pass_on(piece, translator)
    except ApiError as error:
        translator.fail(error)
    for delta in stream.close():
        translator.receive(delta)
    translator.close(now=0, ended=stream.ended)
    return b"".join((*translator.out, DONE))
