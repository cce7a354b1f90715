"""`context_management`: a prompt with too many tokens is compacted before it is answered, at most once in a response."""

from collections.abc import Sequence

from msgspec import structs

from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.question import Question
from antiphon.core.prompt.truncation import CHARACTERS_PER_TOKEN
from antiphon.errors import ApiError
from antiphon.sealing import NO_SEALER
from antiphon.wire.responses import ContextManagement, CreateResponse

# Where no threshold is given: the share of the model's context window that the prompt may fill.
SHARE_OF_WINDOW = 0.8
# A compaction must replace at least this share of the threshold. Otherwise every turn would be compacted, for little.
LEAST_SHARE = 0.1

UNKNOWN_WINDOW = "context_management was ignored: it has no compact_threshold, and the context window of the model is not known"
CANNOT_SEAL = "context_management was ignored: there is no sealer for compactions"
TOO_LITTLE = "context_management: the prompt is over the threshold, but there is too little before the last turn to compact"
FAILED = "context_management: the history was not compacted: {reason}"
CUT_OFF = "The summary was cut off."


class AutoCompaction:
    """Whether the prompt of one response has to be compacted before it is answered. It is counted once."""

    def __init__(self, request: CreateResponse, question: Question, environment: Environment) -> None:
        self.notices: list[str] = []
        # In tokens. None: the prompt need not be counted.
        self.threshold: int | None = None
        if not request.context_management or question.conversion.compacts:
            return
        if environment.sealer is NO_SEALER:
            self.notices.append(CANNOT_SEAL)
            return
        self.threshold = _threshold(request.context_management, question.knowledge.window_of(question.model))
        if self.threshold is None:
            self.notices.append(UNKNOWN_WINDOW)

    def is_due(self, tokens: int, question: Question) -> bool:
        """Of a prompt of this many tokens."""
        threshold, self.threshold = self.threshold, None
        if threshold is None or tokens <= threshold:
            return False
        if question.window.replaceable(question.size_of) < threshold * LEAST_SHARE * CHARACTERS_PER_TOKEN:
            self.notices.append(TOO_LITTLE)
            return False
        return True

    def failed(self, error: ApiError | None) -> None:
        """The prompt is answered as it is. Without an error, the summary was cut off."""
        self.notices.append(FAILED.format(reason=CUT_OFF if error is None else error.message))


def _threshold(entries: Sequence[ContextManagement], window: int | None) -> int | None:
    given = [entry.compact_threshold for entry in entries if entry.compact_threshold is not None]
    if given:
        return min(given)
    return None if window is None else int(window * SHARE_OF_WINDOW)


def request_to_summary_request(request: CreateResponse) -> CreateResponse:
    """The limits of the answer are not those of the summary."""
    return structs.replace(
        request,
        context_management=None,
        max_output_tokens=None,
        stop=None,
        include=None,
        top_logprobs=None,
        stream=False,
        background=None,
    )
