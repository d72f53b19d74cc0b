"""Wire format of devices: draws, payloads and reports, with the standard library alone."""
