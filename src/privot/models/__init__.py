"""What every model has in common: one face, one folder on disk, one checkpoint while it is fitted."""

from privot.errors import naming_extra

with naming_extra("privot.models", "learn"):
    from privot.models.files import NOWHERE, Checkpoint, ModelKind
    from privot.models.model import Guarantee, History, Learned, Model, Stored, load

__all__ = [
    "NOWHERE",
    "Checkpoint",
    "Guarantee",
    "History",
    "Learned",
    "Model",
    "ModelKind",
    "Stored",
    "load",
]
