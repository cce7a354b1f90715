"""CPU per delta of Antiphon beside nginx, on the same engine's streams in the same run: `python -m bench`."""
