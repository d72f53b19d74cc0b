"""Data sets that nobody publishes, at addresses that are none."""

from bad_inputs.cases import cases

CASES = cases(
    ("demo --fetch mnist", "--data"),
    ("demo --address http://example.org", "--fetch"),
    ("demo --fetch cifar --data data", "cifar"),
    ("demo --fetch '' --data data", "''"),
    ("demo --fetch mnist --data people.csv", "people.csv"),
    *(
        (f"demo --fetch mnist --data data --address {address}", "address")
        for address in ("nonsense", "''", "ftp:", "http://", "file:///etc/passwd", "-")
    ),
    ("demo --verify mnist --data nowhere", "mnist"),
    ("demo --verify cifar --data nowhere", "cifar"),
    ("demo --verify mnist --data people.csv", "mnist"),
    ("demo --verify mnist --data data", "mnist", {"data/mnist.npz": b"PK no"}),
)
