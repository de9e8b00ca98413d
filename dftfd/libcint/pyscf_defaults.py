"""What PySCF reads in place of a configuration file: it changes nothing."""
