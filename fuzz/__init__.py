"""Generated requests and broken engine streams against a real gateway. `python -m fuzz --help`."""
