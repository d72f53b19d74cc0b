"""One person's budget, shared among what they report."""
