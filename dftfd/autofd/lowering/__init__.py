"""From operator graphs over unknown functions to code of numbers at one point, or at two."""
