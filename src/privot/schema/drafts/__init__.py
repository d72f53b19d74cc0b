"""Drafts of schemas: from a line a column, and from what other libraries declare; never from data."""
