"""Models of every package, read without knowing which one it is."""

from __future__ import annotations

from pathlib import Path

from privot.errors import PrivotError
from privot.integral.model import IntegralModel
from privot.local.model import Model
from privot.model_folder import kind_of
from privot.sliced.adaptation.classifier import AdaptedClassifier
from privot.sliced.model import SlicedModel

AnyModel = Model | SlicedModel | AdaptedClassifier | IntegralModel

_KINDS: dict[str | None, type[AnyModel]] = {
    "local": Model,
    "sliced": SlicedModel,
    "adapted_classifier": AdaptedClassifier,
    "integral": IntegralModel,
}


def load(path: str | Path) -> AnyModel:
    """The model in a folder, whatever wrote it; its `guarantee` says what was promised.

    Raises:
        PrivotError: if the folder is missing or damaged, holds no model, or is of another version.
    """
    kind = kind_of(Path(path))
    if kind not in _KINDS:
        raise PrivotError(
            f"{path} holds no model (kind {kind!r}): give the folder that `privot fit`, "
            "`privot sliced fit`, `privot sliced adapt` or `privot integral fit` wrote"
        )
    return _KINDS[kind].load(path)
