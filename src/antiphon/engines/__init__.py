"""The engines: the HTTP client to one, the choice among several, and finding out what they are."""
