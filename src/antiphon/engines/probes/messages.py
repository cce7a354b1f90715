"""Probes of what a prompt may contain: roles and their positions, images; and how long it may be, and how it is counted."""

from typing import Any

from antiphon.core.knowledge import template_demands as demands
from antiphon.core.knowledge.template_demands import REMEDIES
from antiphon.engines.probes import templates
from antiphon.engines.probes.client import Answer, ProbeClient, Rejection
from antiphon.engines.probes.findings import Observation, Verdict
from antiphon.engines.probes.questions import HELLO, IMAGE, LONG, MARK, SHORT, WITHOUT_IMAGE
from antiphon.errors import counted

Messages = list[dict[str, str]]

IN_SYSTEM_MESSAGE = "puts developer text into the leading system message, always"
AS_USER_MESSAGE = "sends it as a user message at the same position, always"


def _led_by(role: str, text: str) -> Messages:
    return [{"role": role, "content": text}, *HELLO]


def _with_late_system(text: str) -> Messages:
    return [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "system", "content": text}, *HELLO]


async def developer_role(client: ProbeClient) -> Observation:
    return await _observe(client, _led_by("developer", LONG), _led_by("developer", SHORT), IN_SYSTEM_MESSAGE)


async def system_role(client: ProbeClient) -> Observation:
    remedy, fact = REMEDIES[demands.SYSTEM], "takes_system_role"
    observation = await _observe(client, _led_by("system", LONG), _led_by("system", SHORT), remedy, fact)
    if observation.verdict is Verdict.WORKS and await _is_lost_after_results(client):
        return Observation(Verdict.DOES_NOT, "the model does not see it after the result of a call", remedy, {fact: False})
    return observation


async def _is_lost_after_results(client: ProbeClient) -> bool:
    """The template of Mistral Nemo puts it into the last message, if that is the user's."""
    fields = await templates.tool_fields(client)
    long, short = ({"messages": [{"role": "system", "content": text}, *templates.LOOP], **fields} for text in (LONG, SHORT))
    return await client.is_in_prompt(MARK, long, short) is False


async def late_system_message(client: ProbeClient) -> Observation:
    return await _observe(client, _with_late_system(LONG), _with_late_system(SHORT), AS_USER_MESSAGE)


async def _observe(client: ProbeClient, long: Messages, short: Messages, remedy: str, fact: str | None = None) -> Observation:
    def facts(value: bool) -> dict[str, Any]:
        return {fact: value} if fact else {}

    if (rejection := await client.rejection(messages=long)) is not None:
        return Observation(Verdict.DOES_NOT, str(rejection), remedy, facts(False))
    is_seen = await client.is_in_prompt(MARK, {"messages": long}, {"messages": short})
    if is_seen is None:
        return Observation(Verdict.UNKNOWN, "accepted; it is not known whether the model sees it", remedy)
    if not is_seen:
        return Observation(Verdict.DOES_NOT, "accepted, but dropped: the model does not see it", remedy, facts(False))
    return Observation(Verdict.WORKS, "the model sees it", facts=facts(True))


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
