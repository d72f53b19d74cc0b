"""Densities by a given log ratio, clipped and normalized as a learned one is."""

from privot.integral import ClippedRatioSettings


def mollify(ratio, records, reference, epsilon, settings=None):
    settings = settings or ClippedRatioSettings()
    return settings.clipped(settings.untilted(reference, epsilon), ratio, records)
