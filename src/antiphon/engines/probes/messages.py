"""Whether messages are taken, and reach the model: roles, their places, and their order."""

from typing import Any

from antiphon.engines.probes.asker import Asker, Refusal
from antiphon.engines.probes.findings import Seen, Verdict
from antiphon.engines.probes.questions import HELLO, LONG, MARK, SHORT

Messages = list[dict[str, str]]

FOLDED = "puts developer text into the leading system message, always"
IN_FRONT = "puts the instructions in front of the first user message"
WHERE_IT_STANDS = "sends it as a user message where it stands, always"
JOINED = "joins user messages that follow each other into one"


def _led_by(role: str, text: str) -> Messages:
    return [{"role": role, "content": text}, *HELLO]


def _with_late_system(text: str) -> Messages:
    return [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "system", "content": text}, *HELLO]


async def developer_role(asker: Asker) -> Seen:
    return await _reaching(asker, _led_by("developer", LONG), _led_by("developer", SHORT), FOLDED)


async def system_role(asker: Asker) -> Seen:
    return await _reaching(asker, _led_by("system", LONG), _led_by("system", SHORT), IN_FRONT, fact="takes_system_role")


async def late_system_message(asker: Asker) -> Seen:
    return await _reaching(asker, _with_late_system(LONG), _with_late_system(SHORT), WHERE_IT_STANDS)


async def _reaching(asker: Asker, long: Messages, short: Messages, remedy: str, fact: str | None = None) -> Seen:
    def facts(holds: bool) -> dict[str, Any]:
        return {fact: holds} if fact else {}

    answer = await asker.ask(messages=long)
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), remedy, facts(False))
    reaches = await asker.reaches(MARK, {"messages": long}, {"messages": short})
    if reaches is None:
        return Seen(Verdict.UNKNOWN, "taken; whether the model sees it cannot be told", remedy)
    if not reaches:
        return Seen(Verdict.DOES_NOT, "taken, but dropped: the model does not see it", remedy, facts(False))
    return Seen(Verdict.WORKS, "the model sees it", facts=facts(True))


async def users_in_a_row(asker: Asker) -> Seen:
    answer = await asker.ask(messages=[*HELLO, *HELLO])
    if isinstance(answer, Refusal):
        return Seen(Verdict.DOES_NOT, str(answer), JOINED, {"takes_users_in_a_row": False})
    return Seen(Verdict.WORKS, "taken", facts={"takes_users_in_a_row": True})
