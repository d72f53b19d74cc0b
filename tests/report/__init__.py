"""Tests of pages and pictures; a package, so that file names may repeat those of other packages."""
