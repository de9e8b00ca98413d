"""Threads, memory, compiled programs, atomic writes, HDF5, progress, checks of arguments, shared array types."""
