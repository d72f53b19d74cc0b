"""Audits of randomizers: exact laws of programs, sampled trials, lower bounds of ε."""
