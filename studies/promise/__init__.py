"""One schema, four places of trust: what is learned where records are noised, mixed, shared or held."""
