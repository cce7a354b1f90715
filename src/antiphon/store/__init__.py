"""The store: responses, conversations and background jobs, kept behind one Protocol in memory, in SQLite or in Postgres."""
