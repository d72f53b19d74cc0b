import pytest

from privot.core.errors import PrivotError
from privot.local.classes.class_fit import LatentClassSettings


def test_settings_are_checked():
    for wrong in (
        {"starts": 0},
        {"class_counts": (0, 2)},
        {"strengths": ()},
        {"strengths": (0.0,)},
        {"max_passes": 0},
        {"reach": -1.0},
    ):
        with pytest.raises(PrivotError):
            LatentClassSettings(**wrong)
