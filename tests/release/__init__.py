"""Tests of randomizers and releases; a package, so that file names may repeat those of others."""
