"""Anthropic Messages, which Claude Code and Anthropic's SDKs speak."""
