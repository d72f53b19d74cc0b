"""The conformance suite: words and records in, the bytes of reports out, for devices in any language."""
