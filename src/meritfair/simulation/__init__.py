"""Simulation: a policy, arms and a seed give a `Run`; numbers, tables and figures of it."""
