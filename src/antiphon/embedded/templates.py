"""Which chat template a model is served with: its own, or ours where its own has no tools."""

from importlib.resources import files

from antiphon.embedded.gguf_header import GgufHeader

TURN = "<|im_start|>"


def template_for(header: GgufHeader) -> str | None:
    """None: the model's own. Ours is ChatML, so it is for models that know ChatML and cannot be offered tools."""
    own = header.chat_template or ""
    if "tools" in own or (TURN not in own and TURN not in header.tokens):
        return None
    return files("antiphon.embedded").joinpath("chatml_tools.jinja").read_text(encoding="utf-8")
