"""Frequency oracles: reports that support some codes of an alphabet."""
