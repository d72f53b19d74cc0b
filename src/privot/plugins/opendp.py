"""Measurements for OpenDP: one record goes in, the bytes of its report come out."""

from collections.abc import Mapping
from typing import Any

import opendp.prelude as dp

from privot import PrivotError, Randomizer
from privot.device import Device


def measurement(randomizer: Randomizer) -> dp.Measurement:
    r"""Return a randomizer as a measurement of one record.

    The input is a record that the schema allows, a dict of its columns; the metric is the discrete
    distance: any two records are at distance 1. The output is the report in the wire format, and the
    measure is the max divergence,

    $$ d_{in} = 0 ↦ 0, \qquad d_{in} ≥ 1 ↦ ε , $$

    with the randomizer's ε, which is rounded up. OpenDP cannot verify this map, and asks for
    `dp.enable_features("honest-but-curious", "contrib")`. Each call draws new noise, and spends ε again.

    Privacy review: adjacency is the replacement of the record. Only the report leaves this function; an
    error about a record that the schema does not allow may quote its values to the caller, who has them.

    Raises:
        PrivotError: if devices cannot draw the reports (Gaussian and Laplace noise need logarithms).
    """
    device, epsilon = Device.from_json(randomizer.to_json()), randomizer.guarantee.epsilon

    def report(record: Mapping[str, Any]) -> bytes:
        return device.report(record).to_bytes()

    def privacy_map(distance: int) -> float:
        return epsilon if distance else 0.0

    def is_record(record: Any) -> bool:
        """Return whether the device reports the record; an error tells others apart."""
        try:
            return isinstance(record, Mapping) and bool(device.report(record))
        except PrivotError:
            return False

    records = dp.user_domain("records that a Privot schema allows", is_record)
    return dp.m.make_user_measurement(
        records, dp.discrete_distance(), dp.max_divergence(), report, privacy_map
    )
