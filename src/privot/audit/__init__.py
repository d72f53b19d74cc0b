"""Audits of randomizers: tests of the distribution of reports, and lower bounds on ε."""
