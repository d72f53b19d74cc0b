import pytest

from privot.central import SlicedSettings
from privot.core.errors import PrivotError


def test_settings_refuse():
    with pytest.raises(PrivotError, match="steps 0 cannot be"):
        SlicedSettings(steps=0)
    for size in (float("nan"), 20.0, True):
        with pytest.raises(PrivotError, match=r"batch_size .* cannot be: give a whole number"):
            SlicedSettings(batch_size=size)
    with pytest.raises(PrivotError, match="needs release='once'"):
        SlicedSettings(loss="entropic")
    with pytest.raises(PrivotError, match="loss is 'other'"):
        SlicedSettings(loss="other")
