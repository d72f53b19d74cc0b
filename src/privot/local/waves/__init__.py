"""Populations that move: several waves of reports, learned together."""
