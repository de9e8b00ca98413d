"""Input and output: geometry text, SCF tables and summaries, QCSchema files."""
