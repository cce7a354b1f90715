"""What SQLite and Postgres share: each operation is written once, without I/O, and run by either database."""
