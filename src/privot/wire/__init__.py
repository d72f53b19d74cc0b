"""Bytes that a device sends: draws, payloads of randomizers, reports. The standard library alone."""
