"""Commands and options that there are not."""

from bad_inputs.cases import cases

CASES = cases(
    ("nonsense", "nonsense"),
    ("--nonsense", "--nonsense"),
    ("schema nonsense", "nonsense"),
    ("account nonsense", "nonsense"),
    ("calibrate", "schema"),
    ("calibrate schema.toml other.toml --epsilon 1", "other.toml"),
    ("calibrate schema.toml --epsilon", "--epsilon"),
    ("calibrate schema.toml --eps 1", "--eps"),
    ("privatize people.csv", "--randomizer"),
    ("privatize", "table"),
    ("fit", "release"),
    ("sample", "model"),
    ("evaluate", "model"),
    ("audit", "randomizer"),
    ("central fit", "data"),
    ("central adapt digits.npz", "target"),
    ("integral fit", "people"),
    ("integral fit ages.csv", "--schema"),
    ("demo --fetch", "--fetch"),
    ("plan", "schema"),
)
