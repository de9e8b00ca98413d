"""The operators, one file each with all its rules; they find each other by name in `core.operator_table`."""
