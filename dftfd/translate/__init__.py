"""Functionals for other programs: C99 in libxc's variables and layout, docs/export.md."""
