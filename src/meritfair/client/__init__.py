"""A client of the server, for programs in Python."""
