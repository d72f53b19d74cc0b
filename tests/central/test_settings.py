import pytest

from privot.central import SliceSettings
from privot.core.errors import PrivotError


def test_settings_refuse():
    with pytest.raises(PrivotError, match="steps 0 cannot be"):
        SliceSettings(steps=0)
    for size in (float("nan"), 20.0, True):
        with pytest.raises(PrivotError, match=r"batch_size .* cannot be: give a whole number"):
            SliceSettings(batch_size=size)
    with pytest.raises(PrivotError, match="needs release='once'"):
        SliceSettings(loss="entropic")
    with pytest.raises(PrivotError, match="loss is 'other'"):
        SliceSettings(loss="other")
