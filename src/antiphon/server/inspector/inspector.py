"""What the routes of the inspector need."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from antiphon.server.inspector.files import PageFile
from antiphon.server.inspector.recordings import RecordedRequest, Recordings
from antiphon.server.inspector.rows import Row
from antiphon.server.inspector.views import Opened


class Inspector(Struct, frozen=True):
    # Of Antiphon.
    version: str
    # None: it is switched off, and nothing is recorded.
    recordings: Recordings | None
    # Texts are shown; otherwise only their lengths.
    shows_bodies: bool
    files: Mapping[str, PageFile]

    def to_shown(self, row: Row) -> Row:
        return row.shown() if self.shows_bodies else row.shown().redacted()

    def open(self, request: RecordedRequest, opens_seals: Callable[[Row], bool]) -> tuple[Opened, Opened | None]:
        """The request, and the turn before it, if that is still there. `opens_seals`: whether the viewer may see what was in
        the seals of one."""
        number = request.row.previous
        previous = self.recordings.get(number) if self.recordings is not None and number is not None else None
        seals = opens_seals(request.row)
        return Opened(request, seals=seals), Opened(previous, seals=seals) if previous is not None else None

    def close(self) -> None:
        """Ends the streams of those who watch."""
        if self.recordings is not None:
            self.recordings.viewers.close()
