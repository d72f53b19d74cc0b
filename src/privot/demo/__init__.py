"""Demonstrations in one command, and public data sets to try things on."""
