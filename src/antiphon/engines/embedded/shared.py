"""The embedded engine, as a worker process sees it: another process runs it."""

from collections.abc import Callable

from antiphon.core.knowledge.loading import Loading
from antiphon.engines.embedded.weights import alias_of, facts_of, sampling_of


class SharedEngineProcess:
    """`moved`, `lost` and `progressed` are called when the supervisor reports it."""

    def __init__(self, model: str, url: str, key: str, loading: Loading | None = None) -> None:
        self.url = url
        self.key = key
        self.alias = alias_of(model)
        self.sampling = sampling_of(model)
        self.facts = facts_of(model)
        self.moved: Callable[[str], None] = lambda url: None
        self.lost: Callable[[], None] = lambda: None
        self.loading = loading or Loading(self.alias)
        self.progressed: Callable[[Loading], None] = lambda loading: None
