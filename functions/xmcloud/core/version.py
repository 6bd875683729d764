"""The version, known also where the code was copied and not installed."""

VERSION = "0.2.0"
