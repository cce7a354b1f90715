"""Tools that the gateway runs itself. Each is one object that follows `runner.ToolRunner`."""
