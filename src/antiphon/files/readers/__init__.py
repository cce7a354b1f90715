"""One reader for each kind of file: its content as text. Files come from anybody: `run_check()` runs what is here."""
