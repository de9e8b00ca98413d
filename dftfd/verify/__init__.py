"""Checks, audits, report cards, passports, proofs by interval arithmetic and their recheck."""
