"""Reports as tables: what a device sends, and how a file holds it."""
