"""How much of a recorded session of Claude Code the engine has in its cache. `tests/sessions` has the session."""

import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from sessions.cached import another_session, of_turns, play, share, thinned
from sessions.session import TURNS, read
from support.llamacpp import running_llamacpp

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for
from bench.endpoints.results import Finding, Results
from bench.endpoints.subjects import LITELLM_MODEL, SUBJECTS, engine_at, setup, weights

PART = "cache"
API = "messages"
# Of one slot, in tokens.
CONTEXT = 32768
LATER, OTHER = f"turns 2 to {TURNS}", "first prompt of another session"


async def measure(chosen: Namespace, results: Results) -> None:
    """In tokens. Each subject has a fresh engine, with one layer of the model: it only has to read."""
    model = await weights(chosen.reader)
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        thin, template = thinned(model, CONTEXT, Path(folder)), template_for(read_header(model))
        for name in chosen.subjects:
            with running_llamacpp(thin, alias=LITELLM_MODEL, template=template, context=CONTEXT) as url:
                engine = await engine_at(url)
                async with SUBJECTS[name].start(engine, Path(folder)) as endpoint:
                    prompts = await play(endpoint.url, read(), model=endpoint.model)
            results.add(setup(PART, SUBJECTS[name], engine._replace(model=model.stem)))
            for row, chosen_prompts in ((LATER, of_turns(prompts)), (OTHER, [another_session(prompts)])):
                cached, length = (
                    sum(each) for each in zip(*((each.cached, each.length) for each in chosen_prompts), strict=True)
                )
                results.add(Finding(PART, API, name, row, cached, length))
                print(f"{name:<10}{row}: {share(chosen_prompts):.1%}", file=sys.stderr)
