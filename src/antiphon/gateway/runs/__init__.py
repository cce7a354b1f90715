"""One run of an exchange: the engine is asked, events are sent, tools and checks are run."""
