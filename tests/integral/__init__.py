"""Tests of integral privacy; a package, so that file names may repeat those of other packages."""
