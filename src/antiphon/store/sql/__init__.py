"""What SQLite and Postgres have in common: each operation is written once, without I/O, and run by either database."""
