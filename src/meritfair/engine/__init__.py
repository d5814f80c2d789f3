"""Compiled kernels: arrays in, arrays out, without checks and without words for people."""
