"""Data sets that nobody publishes, at addresses that are none."""

from bad_inputs.cases import cases

CASES = cases(
    ("datasets fetch mnist", "--to"),
    ("datasets fetch cifar --to data", "cifar"),
    ("datasets fetch '' --to data", "''"),
    ("datasets fetch mnist --to people.csv", "people.csv"),
    *(
        (f"datasets fetch mnist --to data --address {address}", "address")
        for address in ("nonsense", "''", "ftp:", "http://", "file:///etc/passwd", "-")
    ),
    ("datasets check mnist --data nowhere", "mnist"),
    ("datasets check cifar --data nowhere", "cifar"),
    ("datasets check mnist --data people.csv", "mnist"),
    ("datasets check mnist --data data", "mnist", {"data/mnist.npz": b"PK no"}),
)
