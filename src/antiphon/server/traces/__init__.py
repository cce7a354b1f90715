"""Traces for OpenTelemetry: a span for each response, and in it one for each question to an engine and each call of a tool that
the gateway runs. Only with `otel`."""
