"""Drafts of a schema from what other libraries declare: JSON Schema, pydantic, pandera."""
