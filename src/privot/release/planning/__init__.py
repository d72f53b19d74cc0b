"""What error to expect of reports, before anyone reports, from public inputs alone."""
