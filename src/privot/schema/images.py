r"""The domain of images: a box of pixels, cut by a ball, seen through an orthonormal transform.

Pixels are in unit coordinates: the bounds of the schema are −1 and 1, whatever they are in raw numbers.
With N pixels (channels counted), a record is what `encode` makes of an image:

1. **box**: every pixel is clipped to [−1, 1];
2. **ball** (if a radius R is declared): the image is pulled to within R of the center, a public image:
   gray (`middle`, all 0) or the darkest (`lower`, all −1, from where all images lie in one orthant);
3. **transform**: nothing (`pixels`), or the orthonormal cosine transform T. With $C_h$ the DCT-II matrix
   of size h, channel by channel, $T X = A X B^⊤$ with $A = C_h[:m]$, $B = C_w[:m]$ keeps the d ≤ N
   coefficients of lowest frequency, and $T^⊤ T$ is the projection onto smooth images. m is declared in
   public; which coefficients of private images are large is never used. Noise is added there: it
   would hide high frequencies, in which images differ little, no better than low ones.

An ℓ2 ball cuts the pixels (step 2), an ℓ1 ball cuts what is noised, so after step 3 where there is a
transform: ℓ1 lengths are those of a basis.

**Privacy review.** Adjacency: any two images. Both may be as far apart as the diameter of the set of
encoded records, which `diameter` bounds from above; nothing else of an image is used.

- The box has $Δ_2 = 2\sqrt N$, $Δ_1 = 2N$.
- An ℓ2 ball has Δ₂ = 2R; around the darkest image all differences to the center are non-negative, so
  $‖x − x'‖^2 ≤ ‖x − c‖^2 + ‖x' − c‖^2 ≤ 2R^2$ and $Δ_2 = \sqrt 2 R$. An ℓ1 ball has Δ₁ = 2R. Both
  projections about a center in the box only shrink differences to it, so a record lies in box **and**
  ball: Δ is the smaller one.
- Box and ℓ1 ball together, in ℓ2 (`_l1_ball_in_box`): let one pixel be at most s from the center, and
  R = qs + f, q whole, 0 ≤ f < s. A sum of squares, being convex, is largest at a corner of what box and
  ball have in common: q pixels at the end of their range, one at f, if there are as many. Around gray,
  s = 1, and no two records are farther apart than x and −x: $Δ_2 = 2 \sqrt{q + f^2}$, and $2\sqrt N$ if
  R ≥ N. Around the darkest, s = 2: of v = x − x′ the parts $v_+ ≤ x − c$ and $v_- ≤ x' − c$ lie in box
  and ball too, and share no pixel, so that N pixels hold min(2q, N) ends and at most two f among
  the others: $Δ_2^2 = 4 \min(2q, N) + \min(2, (N − 2q)_+) f^2$. Both are reached (`far_apart`).
- $T T^⊤ = I$, so $‖T x − T x'‖_2 ≤ ‖x − x'‖_2$: **the transform and its mask never lengthen Δ₂**. The
  box's bound is reached whatever the mask: by a white and a black image, whose difference has no
  frequency but the lowest. In ℓ1, $‖u‖_1 ≤ \sqrt d ‖u‖_2$: Δ₁ ≤ √d Δ₂.
- The ℓ1 ball in coefficients has Δ₁ = Δ₂ = 2R; projecting onto it, a nearest point of a convex set,
  moves no two records apart in ℓ2, so Δ₂ stays below that before.
- Floats: a transform in double precision errs by less than 2^−44 of an image's length, at most √N, and
  so do the ball's roundings, however small the ball is: all diameters but the plain box's are enlarged
  by 2^−36 of themselves and by 2^−43 √N, in ℓ1 by √d times as much.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), section 5: pixels in [−1, 1], an ℓ2 ball of radius 20, an ℓ1 ball of radius 140
    in cosine coefficients. (Their masks are quantiles of private data; ours is declared.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy

from privot.core.errors import MOST_PIXELS, PrivotError
from privot.schema.domains import Array, Box, L1Ball, L2Ball, sqrt_up

_RELATIVE, _OF_LENGTH = 1 + 2.0**-36, 2.0**-43


@dataclass(frozen=True)
class ImageDomain:
    """Encoded images; points are rows (n, d) of the space that noise is added in.

    Arguments:
        shape: Height and width, or height, width and channels.
        radius: Of a ball about the center, in units in which pixels lie in [−1, 1]; None without.
        norm: Of the ball.
        center_at: `"middle"` (gray) or `"lower"` (the darkest image).
        low_pass: Coefficients retained along height and width; None for pixels.

    Examples:
        >>> ImageDomain((28, 28)).diameter(2)
        56.0
        >>> round(ImageDomain((28, 28), radius=20.0, center_at="lower").diameter(2), 3)
        28.284
    """

    shape: tuple[int, ...]
    radius: float | None = None
    norm: Literal[1, 2] = 2
    center_at: Literal["middle", "lower"] = "middle"
    low_pass: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        _ = self._pixel_ball, self._coefficient_ball  # building them checks the radius

    @property
    def num_pixels(self) -> int:
        """Number N of numbers in an image."""
        return math.prod(self.shape)

    @property
    def dimension(self) -> int:
        """Number d of numbers that are noised."""
        channels = math.prod(self.shape[2:])
        return self.num_pixels if self.low_pass is None else math.prod(self.low_pass) * channels

    @property
    def on_grid(self) -> bool:
        """True for the plain box: its corners ±1 lie on every grid 2^−k."""
        return self.radius is None and self.low_pass is None

    @property
    def symmetric(self) -> bool:
        """True if u → −u maps records to records."""
        return self.radius is None or self.center_at == "middle"

    area = None
    # Clipping, nearest points of balls and an orthonormal transform, one after another.
    nonexpansive = True

    @property
    def center(self) -> Array:
        """0: points are in unit coordinates already."""
        return np.zeros(self.dimension)

    @property
    def scale(self) -> Array:
        """1: points are in unit coordinates already."""
        return np.ones(self.dimension)

    program = None

    @property
    def unit(self) -> ImageDomain:
        """This domain."""
        return self

    @property
    def middle(self) -> float:
        """The value of the center's pixels: what images are counted from."""
        return 0.0 if self.center_at == "middle" else -1.0

    @property
    def _pixel_ball(self) -> L1Ball | L2Ball | None:
        if self.radius is None or (self.norm == 1 and self.low_pass is not None):
            return None
        ball = L1Ball if self.norm == 1 else L2Ball
        return ball(self.num_pixels, self.radius, non_negative=self.center_at == "lower")

    @property
    def _coefficient_ball(self) -> L1Ball | None:
        if self.radius is None or self.norm == 2 or self.low_pass is None:
            return None
        return L1Ball(self.dimension, self.radius)

    @property
    def cosines(self) -> tuple[Array, ...]:
        """Rows of the orthonormal transform that the mask keeps, along height and width; () without."""
        sides = zip(self.shape[:2], self.low_pass or (), strict=False)
        return tuple(cosine_rows(size, count) for size, count in sides)

    def diameter(self, norm: int) -> float:
        """An upper bound on the ℓ1 or ℓ2 distance of two records; see the module."""
        pixels = Box((-1.0,) * self.num_pixels, (1.0,) * self.num_pixels)
        if self.on_grid:
            return pixels.diameter(norm)
        cut = [pixels] if self._pixel_ball is None else [pixels, self._pixel_ball]
        if self.low_pass is None:
            bounds = [part.diameter(norm) for part in cut]
            if norm == 2 and isinstance(self._pixel_ball, L1Ball):
                bounds = [_l1_ball_in_box(self.num_pixels, self._pixel_ball)]
            return self._enlarged(min(bounds), norm)
        euclidean = min(part.diameter(2) for part in cut)
        bounds = [euclidean if norm == 2 else math.sqrt(self.dimension) * euclidean]
        if self._coefficient_ball is not None:
            bounds.append(self._coefficient_ball.diameter(norm))
        return self._enlarged(min(bounds), norm)

    def _enlarged(self, diameter: float, norm: int) -> float:
        """A diameter of records with the roundings that made them."""
        length = self.num_pixels * (self.dimension if norm == 1 else 1)
        return diameter * _RELATIVE + _OF_LENGTH * math.sqrt(length)

    def encode(self, pixels: Array) -> Array:
        """Records (n, d) of images (n, N) in unit coordinates, whatever they are: see the module."""
        x = np.clip(pixels, -1.0, 1.0)
        if self._pixel_ball is not None:
            x = np.clip(self._pixel_ball.project(x - self.middle) + self.middle, -1.0, 1.0)
        u = self.transform(x)
        if self._coefficient_ball is not None:
            center = self.transform(np.full((1, self.num_pixels), self.middle))
            u = self._coefficient_ball.project(u - center) + center
        return u

    def transform(self, pixels: Array) -> Array:
        """The linear step alone: points (n, d) of images (n, N)."""
        if self.low_pass is None:
            return pixels
        cube = pixels.reshape(len(pixels), *self.shape[:2], *self.shape[2:] or (1,))
        for rows in self.cosines:
            cube = np.tensordot(cube, rows, axes=(1, 1))
        return np.ascontiguousarray(cube.transpose(0, 2, 3, 1)).reshape(len(pixels), self.dimension)

    def decode(self, points: Array) -> Array:
        """Images (n, N) of points (n, d): the transpose, all else being 0; not clipped."""
        if self.low_pass is None:
            return points
        cube = points.reshape(len(points), *self.low_pass, *self.shape[2:] or (1,))
        for rows in self.cosines:
            cube = np.tensordot(cube, rows, axes=(1, 0))
        return np.ascontiguousarray(cube.transpose(0, 2, 3, 1)).reshape(
            len(points), self.num_pixels
        )

    def project(self, x: Array) -> Array:
        """The records of the images that points (n, d) stand for.

        Records of pixels are left alone. Of coefficients, an image that lacks its high frequencies
        may leave the box by ringing, and comes back changed: encode images, not points.
        """
        return self.encode(self.decode(x))

    def far_apart(self) -> list[tuple[Array, Array]]:
        """Pairs of records, each (d,), that are as far apart as is known: for audits.

        One colors all pixels alike, one halves of them: what reaches Δ of a box, and of an ℓ2 ball. One
        colors as few pixels as an ℓ1 ball allows.
        """
        half = np.arange(self.num_pixels) < self.num_pixels // 2
        white = np.ones(self.num_pixels)
        images = [-white, white, np.where(half, 1.0, -1.0), np.where(half, -1.0, 1.0)]
        if isinstance(self._pixel_ball, L1Ball):
            images += self._few_pixels(self._pixel_ball.radius)
        records = self.encode(np.stack(images))
        return [(records[i], records[i + 1]) for i in range(0, len(records), 2)]

    def _few_pixels(self, radius: float) -> list[Array]:
        """Two images that lie in the ℓ1 ball, and are far apart by few pixels."""
        order = np.arange(self.num_pixels)
        if self.center_at == "middle":
            image = np.clip(radius - order, 0.0, 1.0)
            return [image, -image]
        # Each has one end of the pixels to itself.
        first = np.where(order < self.num_pixels // 2, np.clip(radius - 2 * order, 0.0, 2.0), 0.0)
        second = np.clip(radius - 2 * order, 0.0, 2.0)[::-1]
        return [first - 1.0, np.where(first == 0, second, 0.0) - 1.0]


@lru_cache(maxsize=64)
def cosine_rows(size: int, count: int) -> Array:
    """Return the first `count` rows of the orthonormal DCT-II matrix of a size, shape (count, size).

    >>> rows = cosine_rows(8, 3)
    >>> bool(np.allclose(rows @ rows.T, np.eye(3)))
    True
    """
    rows = np.asarray(scipy.fft.dct(np.eye(size), axis=0, norm="ortho")[:count], np.float64)
    rows.setflags(write=False)
    return rows


def _l1_ball_in_box(num_pixels: int, ball: L1Ball) -> float:
    """Δ₂ of an ℓ1 ball cut by the box of pixels, exactly but for rounding up; see the module."""
    side = 2 if ball.non_negative else 1
    ends, rest = divmod(Fraction(ball.radius), side)
    if ball.non_negative:
        rests = min(2, max(0, num_pixels - 2 * ends))
        return sqrt_up(4 * min(2 * ends, num_pixels) + rests * rest**2)
    return 2 * sqrt_up(min(ends, num_pixels) + (rest**2 if ends < num_pixels else 0))


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse what is no height and width, with or without channels."""
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise PrivotError(
            f"shape {list(shape)} is not an image's: give [height, width] or "
            "[height, width, channels]"
        )
    if math.prod(shape) > MOST_PIXELS:
        raise PrivotError(
            f"shape {list(shape)} has {math.prod(shape):,} numbers, more than {MOST_PIXELS:,}: "
            "declare smaller images"
        )
