"""`python -m dftfd` is the command `dftfd`."""

import sys

from dftfd.cli import main

if __name__ == "__main__":
    sys.exit(main())
