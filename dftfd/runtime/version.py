"""The version, for files and messages; `dftfd.__version__`."""

VERSION = "0.1.0"
