"""Synthesizers and measurements inside other libraries: SDV, synthcity, OpenDP.

Each module needs its library: `pip install sdv`, `synthcity` or `opendp`.
"""
