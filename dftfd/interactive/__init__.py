"""Pages that evaluate functionals in the browser, docs/workbench.md."""
