"""Attacks and accidents, refused or harmless; a package, so that file names may repeat others'."""
