"""Traces for OpenTelemetry: one span for each response, and one in it for each question to an engine. Only with `otel`."""
