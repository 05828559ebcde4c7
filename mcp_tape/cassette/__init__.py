"""The SQLite file that a recording is, and the only home of SQL."""
