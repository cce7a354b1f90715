"""Tools that the gateway runs itself. Each is a subclass of `runner.ToolRunner`, and of its definition in `core.hosted`."""
