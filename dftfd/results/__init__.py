"""Results and their files, vibrations, thermochemistry, pages for the browser."""
