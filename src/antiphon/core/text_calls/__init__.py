"""Tool calls that an engine leaves in the text, because it runs without a parser for them or was only held to their shape."""

from antiphon.core.text_calls.envelope import Envelope
from antiphon.core.text_calls.finder import CallFinder
from antiphon.core.text_calls.search import TextCalls

__all__ = ["CallFinder", "Envelope", "TextCalls"]
