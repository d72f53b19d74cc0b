"""The order of the gallery: nobody is trusted, somebody is, and what is promised."""

ORDER = (
    "three_epsilons",
    "two_mechanisms",
    "planning",
    "campaign",
    "skewed_number",
    "table_with_rules",
    "waves",
    "labeled_digits",
    "embeddings",
    "engine_tasks",
    "slices",
    "adaptation",
    "exact_draws",
    "shuffling",
    "audit_a_bug",
)


def place(filename: str) -> int:
    """Where a script stands; an unknown one is an error, so that none is forgotten."""
    return ORDER.index(filename.removesuffix(".py"))
