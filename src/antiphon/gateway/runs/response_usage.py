"""The usage of one response: written with its record if it is stored, else added to what is written soon."""

from antiphon.errors import ApiError
from antiphon.gateway.runs.observers import Arrival, Observer
from antiphon.gateway.usage.counting import estimated_counts, response_to_counts
from antiphon.gateway.usage.ledger import NO_MODEL, Ledger
from antiphon.store.account_records import Counts, UsageEntry
from antiphon.wire.responses import Response


class ResponseUsage(Observer):
    __slots__ = ("_arrival", "_entry", "_is_stored", "_ledger", "_model", "_pieces")

    def __init__(self, ledger: Ledger, arrival: Arrival) -> None:
        self._ledger = ledger
        self._arrival = arrival
        # What is written with its record.
        self._entry: UsageEntry | None = None
        self._is_stored = False
        # The model, and what was read of the engine, of a run that is given up.
        self._model = NO_MODEL
        self._pieces = 0

    # ---- for its recorder --------------------------------------------------------------------------------------------

    def entry(self, response: Response) -> UsageEntry | None:
        """What is written with its record. None: nothing is."""
        if self._ledger.is_kept:
            self._entry = self._count(response)
        return self._entry

    def given_up(self, model: str, pieces: int) -> None:
        self._model, self._pieces = model, pieces

    def stored(self) -> None:
        self._is_stored = True

    # ---- as an observer ----------------------------------------------------------------------------------------------

    def ended(self, response: Response) -> None:
        entry = self._entry
        if entry is None:
            self._ledger.add(self._count(response))
        elif self._is_stored:
            self._ledger.stored(entry)
        elif self._arrival.channel != "background":
            # Its write has failed, or was answered too late. One in the background ends in another attempt.
            self._ledger.add(entry, may_be_stored=True)

    def dropped(self, error: ApiError | None) -> None:
        """One in the background that is given up is run again, and counted then."""
        if self._arrival.channel == "background" and error is None:
            return
        left = estimated_counts(self._arrival.body, self._pieces)
        counts = left if error is None else Counts(1, failures=1)
        self._ledger.count(self._arrival.owner, self._model, self._arrival.channel, counts)

    def _count(self, response: Response) -> UsageEntry:
        counts = response_to_counts(response)
        return self._ledger.entry(response.id, self._arrival.owner, response.model, self._arrival.channel, counts)
