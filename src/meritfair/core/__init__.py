"""What all layers use: errors, checks, seeds, files, tables and text."""
