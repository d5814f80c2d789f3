"""What people are shown of a programme: why this person, and the audit for a board."""
