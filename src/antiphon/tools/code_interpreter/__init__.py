"""The tool `code_interpreter`."""
