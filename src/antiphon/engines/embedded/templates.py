"""Chooses the chat template of a model: its own, or ours if its own does not support tools."""

from importlib.resources import files

from antiphon.engines.embedded.gguf_header import GgufHeader

CHATML_START = "<|im_start|>"


def template_for(header: GgufHeader) -> str | None:
    """None: the model's own. Ours is ChatML with tools, so only a ChatML model without tools gets it."""
    own = header.chat_template or ""
    if "tools" in own or (CHATML_START not in own and CHATML_START not in header.tokens):
        return None
    return files("antiphon.engines.embedded").joinpath("chatml_tools.jinja").read_text(encoding="utf-8")
