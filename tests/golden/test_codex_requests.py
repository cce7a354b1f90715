"""Every shape of request that Codex was seen to send converts, and the notice lists exactly what was left out.

The requests were recorded from Codex 0.166.0 and keep their shape; the texts in them are ours.
"""

from pathlib import Path

import msgspec
import pytest
from support.engine import OWN_FIELDS, objection

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME, PLAIN
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request

REQUESTS = sorted((Path(__file__).parent / "codex_requests").glob("*.json"))

WEB_SEARCH = "tool web_search was left out: it does not run here"
FOREIGN_REASONING = "sealed reasoning of another server was ignored: it cannot be opened here"
FOREIGN_COMPACTION = "input[4]: a compaction of another server cannot be opened here"
# What is not listed leaves out the hosted web search, and nothing else.
NOTICES: dict[str, tuple[str, ...]] = {
    "after_remote_v2_compaction": (FOREIGN_COMPACTION, WEB_SEARCH),
    "lite_turn1_responses_lite": (),
    "local_compaction_request": (),
    "tuned_config_turn1": (),
    "turn2_reasoning_summary_content_encrypted_replay": (FOREIGN_REASONING, WEB_SEARCH),
}


@pytest.mark.parametrize("path", REQUESTS, ids=[path.stem for path in REQUESTS])
def test_a_request_of_codex_converts_and_the_notice_is_exact(path: Path) -> None:
    request, unknown = body_to_request(path.read_bytes())
    conversion = request_to_chat(ChatInputs(request, request_to_items(request), PLAIN, "m"))
    assert unknown == []
    assert conversion.notices == NOTICES.get(path.stem, (WEB_SEARCH,))


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
def test_a_strict_engine_takes_every_one_of_them(dialect: Dialect) -> None:
    assert len(REQUESTS) == 20
    for path in REQUESTS:
        request, _ = body_to_request(path.read_bytes())
        chat = request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m")).chat
        body = msgspec.json.decode(msgspec.json.encode(chat))
        assert objection(body, own_fields=OWN_FIELDS.get(dialect.name, ())) is None
