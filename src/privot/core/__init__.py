"""Foundations: errors, files, the state folder, processes, compiled loops, summaries."""
