"""The strict checks: whether what an endpoint answers has the form of its API. Only the form, so the weights are random."""

import importlib.metadata
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for
from bench.endpoints import chat, messages, responses
from bench.endpoints.judged import Checks
from bench.endpoints.results import MOST_SHOWN, Finding, Results
from bench.endpoints.subjects import LITELLM_MODEL, SUBJECTS, engine_at, setup

PART = "checks"
APIS: Mapping[str, ModuleType] = {"responses": responses, "messages": messages, "chat": chat}
SDKS = ("openai", "anthropic")


def findings(api: str, subject: str, checks: Checks) -> list[Finding]:
    return [
        Finding(PART, api, subject, check, each.count(None), len(each), next(filter(None, each), "")[:MOST_SHOWN])
        for check, each in checks.found.items()
    ]


async def measure(chosen: Namespace, results: Results) -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        weights = write_tiny_model(Path(folder) / "random-weights.gguf", context=16384)
        # With a chat template that has tools.
        template = template_for(read_header(weights))
        with running_llamacpp(weights, alias=LITELLM_MODEL, context=8192, template=template) as url:
            engine = await engine_at(url)
            sdks = [f"the {name} SDK {importlib.metadata.version(name)}" for name in SDKS]
            for name in chosen.subjects:
                async with SUBJECTS[name].start(engine, Path(folder)) as endpoint:
                    results.add(setup(PART, SUBJECTS[name], engine._replace(model="random weights"), *sdks))
                    for api, module in APIS.items():
                        found = findings(api, name, await module.check(endpoint))
                        results.add(*found)
                        for each in found:
                            print(f"{name:<10}{api:<10}{each.right} of {each.asked}  {each.name} {each.wrong}", file=sys.stderr)
