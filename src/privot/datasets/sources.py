"""Where three public image data sets come from, and how to know that they arrived whole.

The checksums are SHA-256 sums of the *values*, one byte a pixel or label in row-major order: they
hold for every file format and every compression. The publishers' own sums cover compressed files,
which mirrors compress again.

| name | images | source |
|---|---|---|
| mnist | 60 000 + 10 000, 28 × 28 | LeCun, Cortes, Burges; copies kept for PyTorch and TensorFlow |
| fashion_mnist | 60 000 + 10 000, 28 × 28 | Xiao, Rasul, Vollgraf (Zalando), MIT license |
| usps | 7 291 + 2 007, 16 × 16 | Hastie, Tibshirani, Friedman, *Elements of statistical learning* |
"""

from __future__ import annotations

from dataclasses import dataclass

from privot.errors import PrivotError

PARTS = ("x_train", "y_train", "x_test", "y_test")
_IDX = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
IDX_FILES = tuple(f"{stem}-ubyte.gz" for stem in _IDX)
ZIP_CODE_FILES = ("zip.train.gz", "zip.test.gz")


@dataclass(frozen=True)
class Source:
    """One data set: where its files are, what they are called, what they hold.

    Arguments:
        name: What users call it; also the name of its folder, and of its npz file.
        addresses: Folders on the web that hold all of its files; tried in turn.
        files: Names of the files.
        checksums: SHA-256 of the values of `x_train`, `y_train`, `x_test`, `y_test`.
    """

    name: str
    addresses: tuple[str, ...]
    files: tuple[str, ...]
    checksums: tuple[str, ...]


SOURCES = {
    source.name: source
    for source in (
        Source(
            "mnist",
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            IDX_FILES,
            (
                "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            ),
        ),
        Source(
            "fashion_mnist",
            (
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            ),
            IDX_FILES,
            (
                "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            ),
        ),
        Source(
            "usps",
            ("https://hastie.su.domains/ElemStatLearn/datasets/",),
            ZIP_CODE_FILES,
            (
                "2f7c143ae36230217969192bdf6cf789ab7d6b192094d8469106db85e5f32496",
                "ee5027fd47b76715ac18ca27e72fa1332bde98e0b8ce593b503bb2bdb6c03da0",
                "0d676bfeece8e58939a4cf88aa0de0b720c60556b6ab1d02e37e9c1ca07b758b",
                "0b8b792b8ca1c5c704fd9d5bbd1b261623a359e6c8c65b23db428257beea7800",
            ),
        ),
    )
}


def find_source(name: str) -> Source:
    """The data set of that name.

    Raises:
        PrivotError: if there is none.
    """
    if name not in SOURCES:
        raise PrivotError(f"dataset {name!r} is not known: use one of {', '.join(SOURCES)}")
    return SOURCES[name]
