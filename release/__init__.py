"""`make release`: builds the package, tries it where nothing else is, and lists what is in it. See docs/releasing.md."""
