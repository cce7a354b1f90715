"""What is known of the model itself: what it sees, what it holds, and how its tokens are counted."""

from antiphon.engines.probes.asker import Asker, Refusal
from antiphon.engines.probes.findings import Seen, Verdict
from antiphon.engines.probes.questions import HELLO, PICTURE

# What Codex sends before anyone has said a word is about 10,000 tokens, and it needs room to work.
ENOUGH_FOR_CODEX = 16384

TEXT_ONLY = "tells Codex that this model takes text only; another client's picture is a 400 that says so"
BY_LENGTH = "counts by length, about four characters a token"
COMPACTS = "tells Codex the real window, so that it compacts its history in time; expect that to be often"
ASSUMED = "tells Codex the setting context_window"


async def images(asker: Asker) -> Seen:
    told = await asker.told(asker.dialect.vision)
    if told is not None:
        words = "the engine says that this model sees" if told else "the engine says that this model sees none"
        return Seen(Verdict.WORKS if told else Verdict.DOES_NOT, words, TEXT_ONLY)
    answer = await asker.ask(messages=PICTURE)
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), TEXT_ONLY)
    return Seen(Verdict.WORKS, "a picture was taken")


async def tokenizer(asker: Asker) -> Seen:
    count = await asker.engine.count_tokens(HELLO[0]["content"], asker.model)
    if count is None:
        return Seen(Verdict.DOES_NOT, "there is no endpoint that counts tokens", BY_LENGTH)
    return Seen(Verdict.WORKS, "tokens are counted by the engine")


async def context_window(asker: Asker) -> Seen:
    window = next((model.window for model in asker.engine.models if model.id == asker.model), None)
    if window is None:
        return Seen(Verdict.UNKNOWN, "the engine does not tell", ASSUMED)
    if window < ENOUGH_FOR_CODEX:
        return Seen(Verdict.PARTLY, f"{window} tokens: Codex wants {ENOUGH_FOR_CODEX} or more", COMPACTS)
    return Seen(Verdict.WORKS, f"{window} tokens")
