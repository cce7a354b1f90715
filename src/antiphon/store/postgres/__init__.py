"""The store in Postgres."""
