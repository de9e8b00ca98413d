"""Functions and their spaces, graphs of operators, who interprets a call, and what is asked of JAX."""
