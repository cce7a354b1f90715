"""Thousands of mixed requests to one gateway, a tenth of them hostile. It must not
be larger afterwards. `python -m soak.mixed --help`."""
