"""Tests of the mechanisms; a package, so that file names may repeat those of other packages."""
