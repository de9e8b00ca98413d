"""Truncated power series: a second interpreter of programs, for all derivatives along a line."""
