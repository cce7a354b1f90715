"""Probes of the model itself: images, the tokenizer, and the context window."""

from antiphon.engines.probes.client import ProbeClient, Rejection
from antiphon.engines.probes.findings import Observation, Verdict
from antiphon.engines.probes.questions import HELLO, IMAGE

# The first prompt of Codex has about 10,000 tokens before the user has written anything.
ENOUGH_FOR_CODEX = 16384

TEXT_ONLY = "reports to Codex that this model accepts text only; an image of another client is a 400 that says so"
BY_LENGTH = "counts by length, about four characters a token"
COMPACTS = "reports the real window to Codex, so that it compacts its history in time; expect that to be often"
ASSUMED = "reports the setting context_window to Codex"


async def images(client: ProbeClient) -> Observation:
    reported = await client.reported(client.dialect.vision)
    if reported is not None:
        detail = "the engine says that this model sees" if reported else "the engine says that this model sees none"
        return Observation(Verdict.WORKS if reported else Verdict.DOES_NOT, detail, TEXT_ONLY)
    answer = await client.ask(messages=IMAGE)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), TEXT_ONLY)
    return Observation(Verdict.WORKS, "an image was accepted")


async def tokenizer(client: ProbeClient) -> Observation:
    count = await client.engine.count_tokens(HELLO[0]["content"], client.model)
    if count is None:
        return Observation(Verdict.DOES_NOT, "the engine has no endpoint that counts tokens", BY_LENGTH)
    return Observation(Verdict.WORKS, "tokens are counted by the engine")


async def context_window(client: ProbeClient) -> Observation:
    window = next((model.window for model in client.engine.models if model.id == client.model), None)
    if window is None:
        return Observation(Verdict.UNKNOWN, "the engine does not report it", ASSUMED)
    if window < ENOUGH_FOR_CODEX:
        return Observation(Verdict.PARTLY, f"{window} tokens: Codex wants {ENOUGH_FOR_CODEX} or more", COMPACTS)
    return Observation(Verdict.WORKS, f"{window} tokens")
