"""Bridges to other packages. This is the only folder that imports pyscf."""
