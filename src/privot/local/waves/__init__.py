"""Populations that change over time, learned from several waves of reports together."""
