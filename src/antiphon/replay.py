"""A recorded engine stream → the Responses events that it becomes."""

import itertools
from collections.abc import Iterable

from antiphon.core.dialect import ChunkReader
from antiphon.core.output_items import Style
from antiphon.core.sse import DONE, FrameReader, event_to_frame
from antiphon.core.think_tags import Start
from antiphon.core.translator import Translator
from antiphon.errors import ApiError
from antiphon.wire.responses import Response

PLAIN_STYLE = Style()


def replay(
    pieces: Iterable[bytes], *, style: Style = PLAIN_STYLE, start: Start = Start.UNKNOWN, most_calls: int | None = None
) -> bytes:
    """Ids and times are counted, not drawn: the same recording gives the same bytes."""
    numbers = itertools.count(1)
    translator = Translator(
        Response(id="resp_replay", created_at=0, model="replay"),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        encode=event_to_frame,
        style=style,
        most_calls=most_calls,
    )
    frames, reader = FrameReader(), ChunkReader(start)

    def receive(found: list[bytes]) -> None:
        for frame in found:
            if not reader.ended:
                for delta in reader.receive(frame):
                    translator.receive(delta)

    translator.start()
    try:
        for piece in pieces:
            receive(frames.receive(piece))
        receive(frames.close())
    except ApiError as error:
        translator.fail(error)
    for delta in reader.close():
        translator.receive(delta)
    translator.close(now=0, ended=reader.ended)
    return b"".join((*translator.out, DONE))
