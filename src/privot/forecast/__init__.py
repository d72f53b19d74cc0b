"""Forecasts of errors by simulation, before anybody reports.

- `fits`: the error of a fit of a table, for populations that agree with a pilot or are random.
- `simulation`: the errors of whole campaigns, for each place of trust, with people from a prior.
"""
