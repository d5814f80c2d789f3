"""The ledger's format: entries, tables, seeds and draws; and a verifier that needs nothing else."""
