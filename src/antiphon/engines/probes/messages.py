"""Probes of messages: whether roles and positions are accepted, and get into the prompt."""

from typing import Any

from antiphon.core.knowledge import template_demands as demands
from antiphon.core.knowledge.template_demands import REMEDIES
from antiphon.engines.probes import templates
from antiphon.engines.probes.client import ProbeClient
from antiphon.engines.probes.findings import Observation, Verdict
from antiphon.engines.probes.questions import HELLO, LONG, MARK, SHORT

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
