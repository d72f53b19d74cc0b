"""The demo: what the library is for, in one command."""
