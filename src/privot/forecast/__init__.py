"""Forecasts of errors, before anybody reports: by pilots, by made-up people, and by place of trust.

- `fits`: the error of a fit of tables, by rehearsals on people of a pilot or made up.
- `simulation`: whole campaigns, and every place of trust, on people of a prior.
"""
