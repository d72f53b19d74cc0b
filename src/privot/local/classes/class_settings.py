"""What to try when latent classes are fitted, and how hard."""

from __future__ import annotations

from dataclasses import dataclass

from privot.errors import PrivotError


@dataclass(frozen=True)
class LatentClassSettings:
    """What to try, and how hard.

    Args:
        class_counts: numbers of classes, increasing; 1 (independence) is always tried.
        strengths: α; the first is used while the number of classes is chosen.
        starts: fits of each kept setting that are averaged.
        reach: standard errors below the best at which a setting is still kept.
        max_passes: EM steps at most; the best number is chosen too.
        check_every: EM steps between looks at the held-out reports.
        patience: looks without improvement until a setting's fit ends.

    Raises:
        PrivotError: if a number is not positive.
    """

    class_counts: tuple[int, ...] = (2, 4, 8, 16, 24, 32)
    strengths: tuple[float, ...] = (1.0, 0.3, 3.0, 10.0)
    starts: int = 3
    reach: float = 3.0
    max_passes: int = 150
    check_every: int = 5
    patience: int = 3

    def __post_init__(self) -> None:
        numbers = (self.starts, self.max_passes, self.check_every, self.patience)
        if min(*numbers, *self.class_counts) < 1 or not min(self.strengths, default=0) > 0:
            raise PrivotError(f"settings are {self!r}: give positive numbers, and a strength")
        if not self.reach >= 0:
            raise PrivotError(
                f"reach is {self.reach!r}: give a number of standard errors, 0 or more"
            )


# Where classes lie along a number, one person of the prior in each leaks much of it to the others.
OF_CURVES = LatentClassSettings(class_counts=(4, 8, 16, 32), strengths=(0.1, 1.0, 3.0, 10.0, 30.0))
# With a strength for each column.
RELEVANT = LatentClassSettings(class_counts=(4, 8, 16, 24, 32), strengths=(0.1, 0.3, 1.0))
