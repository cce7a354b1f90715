"""Probes of the model itself: images, the tokenizer, and the context window."""

from antiphon.engines.probes.client import Answer, ProbeClient, Rejection
from antiphon.engines.probes.findings import Observation, Verdict
from antiphon.engines.probes.questions import HELLO, IMAGE, WITHOUT_IMAGE
from antiphon.errors import counted

# The first prompt of Codex has about 10,000 tokens before the user has written anything.
ENOUGH_FOR_CODEX = 16384

TEXT_ONLY = "reports to Codex that this model accepts text only; an image of another client is a 400 that says so"
UNSEEN = "sends the images of clients all the same, and adds a notice that the model may not see them"
BY_LENGTH = "counts by length, about four characters a token"
COMPACTS = "reports the real window to Codex, so that it compacts its history in time; expect that to be often"
ASSUMED = "reports the setting context_window to Codex"


async def images(client: ProbeClient) -> Observation:
    reported = await client.reported(client.dialect.vision)
    if reported is not None:
        detail = "the engine says that this model sees" if reported else "the engine says that this model sees none"
        return Observation(Verdict.WORKS if reported else Verdict.DOES_NOT, detail, TEXT_ONLY, {"shows_images": reported})
    answer = await client.ask(messages=IMAGE)
    if isinstance(answer, Rejection):
        return Observation(Verdict.DOES_NOT, str(answer), TEXT_ONLY)
    with_image, without = _prompt_tokens(answer), _prompt_tokens(await client.ask(messages=WITHOUT_IMAGE))
    if not with_image or not without:
        return Observation(Verdict.UNKNOWN, "an image was accepted; it is not known whether the model sees it")
    if with_image > without:
        return Observation(Verdict.WORKS, "an image was accepted, and makes the prompt longer", facts={"shows_images": True})
    detail = "accepted, but ignored: an image does not make the prompt longer"
    return Observation(Verdict.DOES_NOT, detail, UNSEEN, {"shows_images": False})


def _prompt_tokens(answer: Answer | Rejection) -> int | None:
    return answer.usage.input_tokens if isinstance(answer, Answer) and answer.usage is not None else None


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
        return Observation(Verdict.PARTLY, f"{counted(window, 'token')}: Codex wants {ENOUGH_FOR_CODEX} or more", COMPACTS)
    return Observation(Verdict.WORKS, counted(window, "token"))
