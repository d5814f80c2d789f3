"""Where programmes are kept: SQLite or PostgreSQL, behind one contract."""
