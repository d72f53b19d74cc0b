"""Tests of the command line; a package, so that file names may repeat those of other packages."""
