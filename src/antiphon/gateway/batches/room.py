"""How much room the engines have for lines of batches: what requests of people leave."""

from collections.abc import Iterator, Sequence

from antiphon.engines.upstream import Engine
from antiphon.errors import EngineError, NotFound
from antiphon.gateway.runs.gateway import Gateway
from antiphon.store.files.batch_lines import EngineRoom

# Lines of a model that no engine knows come to nothing. So many are run at once.
UNKNOWN_AT_ONCE = 16


class Room:
    def __init__(self, gateway: Gateway, places: int) -> None:
        """`places`: how many requests an engine gets at once that does not say how many it processes."""
        self._gateway = gateway
        self._places = places

    async def of_model(self, name: str, beginning: int) -> Sequence[EngineRoom] | None:
        """Of the engines that serve it now. None: no engine knows it. `beginning`: lines of it that are at no engine yet."""
        pool = self._gateway.pool
        try:
            chosen = await pool.choose_model(name or None)
        except NotFound:
            return None
        except EngineError:
            return ()
        return [*_with_beginning([self._of(engine) for engine in pool.serving(chosen.model)], beginning)]

    def _of(self, engine: Engine) -> EngineRoom:
        limits = self._gateway.admission.engines
        most = limits.limits.engine_requests
        known = [places for places in (engine.slots, most) if isinstance(places, int)]
        return EngineRoom(engine.root, min(known, default=self._places), limits.in_flight(engine))

    def busy(self) -> dict[str, int]:
        """The requests that each engine has from here."""
        limits = self._gateway.admission.engines
        return {engine.root: limits.in_flight(engine) for engine in self._gateway.pool.engines}


def _with_beginning(rooms: Sequence[EngineRoom], beginning: int) -> Iterator[EngineRoom]:
    """Counts lines whose engine is not chosen yet where there is room for them."""
    for room in rooms:
        taken = min(beginning, max(0, room.places - room.busy))
        beginning -= taken
        yield room._replace(busy=room.busy + taken)
