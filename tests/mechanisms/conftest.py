"""Audits of mechanisms ask of one large sample alone."""

from release.conftest import no_streams

__all__ = ["no_streams"]
