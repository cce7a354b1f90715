"""Antiphon: OpenAI's Responses API in front of any Chat Completions engine."""

__version__ = "0.1.0"
