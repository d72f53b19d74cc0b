"""Audits that ask of one large sample alone."""

from randomizer.conftest import no_streams

__all__ = ["no_streams"]
