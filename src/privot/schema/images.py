r"""The domain of images: a box of pixels intersected with a ball, in an orthonormal basis.

Pixels are in unit coordinates, in which the bounds of the schema are −1 and 1. With N pixels (of all
channels), `encode` maps an image to a record in three steps:

1. **box**: every pixel is clipped to [−1, 1];
2. **ball** (if a radius R is declared): the image is projected to within R of a public center, which is
   the gray image (`middle`, all 0) or the darkest one (`lower`, all −1; then all images lie in one
   orthant);
3. **transform**: nothing (`pixels`), or the orthonormal cosine transform T. It maps each channel X of
   height h and width w to $T X = A X B^⊤$, where $C_h$ is the DCT-II matrix of size h, $A = C_h[:m]$ and
   $B = C_w[:m]$ for a public m: the d ≤ N coefficients of lowest frequency. $T^⊤ T$ is the projection
   onto smooth images. Noise is added to the coefficients, so dropping high frequencies, in which images
   differ little, saves noise.

An ℓ2 ball restricts the pixels (step 2). An ℓ1 ball restricts the noised numbers: with a transform it is
applied after step 3, because ℓ1 lengths depend on the basis.

**Privacy review.** Adjacency: any two images. Two encoded records are at most as far apart as `diameter`
states; nothing else of an image is used.

- The box has $Δ_2 = 2\sqrt N$, $Δ_1 = 2N$.
- An ℓ2 ball has Δ₂ = 2R; around the darkest image all differences to the center are non-negative, so
  $‖x − x'‖^2 ≤ ‖x − c‖^2 + ‖x' − c‖^2 ≤ 2R^2$ and $Δ_2 = \sqrt 2 R$. An ℓ1 ball has Δ₁ = 2R. Since the
  center is in the box, projections to a ball only shrink differences to it and stay in the box. So a
  record lies in box **and** ball, and Δ is at most the smaller of the two diameters.
- Intersection of box and ℓ1 ball, in ℓ2 (`_l1_ball_in_box`): let s be the largest distance of a pixel
  from the center's, and R = qs + f with an integer q and 0 ≤ f < s. A sum of squares is convex, so it is
  largest at a corner of the intersection, at which q pixels have the distance s, one has the distance f
  (if N > q), and all others 0. Around gray, s = 1. The set is symmetric, so the farthest records are x
  and −x: $Δ_2 = 2 \sqrt{q + f^2}$, and $2\sqrt N$ if R ≥ N. Around the darkest image, s = 2. The
  positive and negative parts $v_+ ≤ x − c$ and $v_- ≤ x' − c$ of v = x − x′ are each in box and ball,
  relative to c, and differ from 0 in disjoint pixels: min(2q, N) pixels of v have size 2, and at most
  two of the others size f, so $Δ_2^2 = 4 \min(2q, N) + \min(2, (N − 2q)_+) f^2$. `far_apart` returns
  records that reach both.
- $T T^⊤ = I$, so $‖T x − T x'‖_2 ≤ ‖x − x'‖_2$: **the transform and its mask never enlarge Δ₂**. The
  box's bound is reached for every mask, by a white and a black image, whose difference has the lowest
  frequency only. In ℓ1, $‖u‖_1 ≤ \sqrt d ‖u‖_2$: Δ₁ ≤ √d Δ₂.
- The ℓ1 ball in coefficients has Δ₁ = Δ₂ = 2R. A projection onto a convex set does not increase ℓ2
  distances, so the bound on Δ₂ before the projection holds, too.
- Rounding: in double precision, a transform, or a projection onto a ball of any radius, has an error
  below 2^−44 of an image's length, which is at most √N. So all diameters but that of the plain box are
  increased by 2^−36 of themselves and by 2^−43 √N, or √d times as much in ℓ1.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), section 5: pixels in [−1, 1], an ℓ2 ball of radius 20, an ℓ1 ball of radius 140
    in cosine coefficients. (Their masks are quantiles of private data; ours is declared.)
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Self

import numpy as np
import scipy

from privot.core.errors import MOST_PIXELS, PrivotError
from privot.schema.domains import Array, Box, L1Ball, L2Ball, sqrt_up

_RELATIVE_MARGIN, _LENGTH_MARGIN = 1 + 2.0**-36, 2.0**-43  # for the rounding errors of a diameter


@dataclass(frozen=True)
class ImageDomain:
    """Domain of encoded images; points are rows (n, d) of the numbers to which noise is added.

    Examples:
        >>> ImageDomain((28, 28)).diameter(2)
        56.0
        >>> round(ImageDomain((28, 28), radius=20.0, center_at="lower").diameter(2), 3)
        28.284
    """

    shape: tuple[int, ...]  # height and width, or height, width and channels
    # Radius R > 0 of a ball around the center, in unit coordinates; None for no ball.
    radius: float | None = None
    norm: Literal[1, 2] = 2  # norm of the ball, 1 or 2
    # `"middle"` (gray) or `"lower"` (the darkest image).
    center_at: Literal["middle", "lower"] = "middle"
    # Number of coefficients retained along height and width; None for pixels.
    low_pass: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        _ = self._pixel_ball, self._coefficient_ball  # building them checks the radius

    @property
    def num_pixels(self) -> int:
        """Number N of numbers in an image."""
        return math.prod(self.shape)

    @property
    def dimension(self) -> int:
        """Number d of noised numbers."""
        channels = math.prod(self.shape[2:])
        return self.num_pixels if self.low_pass is None else math.prod(self.low_pass) * channels

    @property
    def on_grid(self) -> bool:
        """Whether it is the plain box, whose corners ±1 lie on every grid 2^−k."""
        return self.radius is None and self.low_pass is None

    @property
    def symmetric(self) -> bool:
        """Whether u → −u maps records to records."""
        return self.radius is None or self.center_at == "middle"

    area = None  # in general neither a box, a ball nor a curve
    program = None  # devices have no images

    @property
    def center(self) -> Array:
        """0: points are in unit coordinates already."""
        return np.zeros(self.dimension)

    @property
    def scale(self) -> Array:
        """1: points are in unit coordinates already."""
        return np.ones(self.dimension)

    @property
    def unit(self) -> Self:
        """This domain."""
        return self

    @property
    def center_pixel(self) -> float:
        """Value of all pixels of the ball's center."""
        return 0.0 if self.center_at == "middle" else -1.0

    @property
    def _pixel_ball(self) -> L1Ball | L2Ball | None:
        """Ball of step 2, relative to its center; None without step 2."""
        if self.radius is None or (self.norm == 1 and self.low_pass is not None):
            return None
        ball = L1Ball if self.norm == 1 else L2Ball
        return ball(self.num_pixels, self.radius, non_negative=self.center_at == "lower")

    @property
    def _coefficient_ball(self) -> L1Ball | None:
        """ℓ1 ball that is applied after step 3, relative to its center; None if no ball is."""
        if self.radius is None or self.norm == 2 or self.low_pass is None:
            return None
        return L1Ball(self.dimension, self.radius)

    @property
    def cosines(self) -> tuple[Array, ...]:
        """Retained rows of the orthonormal transform, along height and width; () for pixels."""
        sides = zip(self.shape[:2], self.low_pass or (), strict=False)
        return tuple(cosine_rows(size, count) for size, count in sides)

    def diameter(self, norm: int) -> float:
        """Return an upper bound on the ℓ1 or ℓ2 distance of two records, by the module's formulas."""
        pixels = Box((-1.0,) * self.num_pixels, (1.0,) * self.num_pixels)
        if self.on_grid:
            return pixels.diameter(norm)
        sets = [pixels] if self._pixel_ball is None else [pixels, self._pixel_ball]
        if self.low_pass is None and norm == 2 and isinstance(self._pixel_ball, L1Ball):
            bound = _l1_ball_in_box(self.num_pixels, self._pixel_ball)
        elif self.low_pass is None:
            bound = min(domain.diameter(norm) for domain in sets)
        else:
            bound = min(domain.diameter(2) for domain in sets)
            bound *= math.sqrt(self.dimension) if norm == 1 else 1.0
            if self._coefficient_ball is not None:
                bound = min(bound, self._coefficient_ball.diameter(norm))
        square = self.num_pixels * (self.dimension if norm == 1 else 1)
        return bound * _RELATIVE_MARGIN + _LENGTH_MARGIN * math.sqrt(square)

    def encode(self, pixels: Array) -> Array:
        """Encode images (n, N), in unit coordinates, as records (n, d)."""
        x = np.clip(pixels, -1.0, 1.0)
        if self._pixel_ball is not None:
            inside = self._pixel_ball.project(x - self.center_pixel) + self.center_pixel
            x = np.clip(inside, -1.0, 1.0)
        u = self.transform(x)
        if self._coefficient_ball is not None:
            center = self.transform(np.full((1, self.num_pixels), self.center_pixel))
            u = self._coefficient_ball.project(u - center) + center
        return u

    def transform(self, pixels: Array) -> Array:
        """Return points (n, d): step 3 alone, applied to images (n, N) without clipping."""
        if self.low_pass is None:
            return pixels
        cube = pixels.reshape(len(pixels), *self.shape[:2], *self.shape[2:] or (1,))
        for rows in self.cosines:  # axis 1 moves to the end: n h w c → n w c h′ → n c h′ w′
            cube = np.tensordot(cube, rows, axes=(1, 1))
        return np.ascontiguousarray(cube.transpose(0, 2, 3, 1)).reshape(len(pixels), self.dimension)

    def decode(self, points: Array) -> Array:
        """Return images (n, N) of points (n, d) by the transposed transform, without clipping."""
        if self.low_pass is None:
            return points
        cube = points.reshape(len(points), *self.low_pass, *self.shape[2:] or (1,))
        for rows in self.cosines:  # as in `transform`
            cube = np.tensordot(cube, rows, axes=(1, 0))
        images = np.ascontiguousarray(cube.transpose(0, 2, 3, 1))
        return images.reshape(len(points), self.num_pixels)

    def project(self, x: Array) -> Array:
        """Return the records (n, d) of the images that points (n, d) decode to.

        Records of pixels do not change. Records of coefficients may change, because an image without
        its high frequencies may leave the box. So encode images, not points.
        """
        return self.encode(self.decode(x))

    def far_apart(self) -> list[tuple[Array, Array]]:
        """See `Domain`.

        The first pair are uniform images, the second images of two halves: they reach Δ of a box and of
        an ℓ2 ball. The third pair, for an ℓ1 ball, differs in few pixels.
        """
        half = np.arange(self.num_pixels) < self.num_pixels // 2
        white = np.ones(self.num_pixels)
        images = [-white, white, np.where(half, 1.0, -1.0), np.where(half, -1.0, 1.0)]
        if isinstance(self._pixel_ball, L1Ball):
            images += self._few_pixels(self._pixel_ball.radius)
        records = self.encode(np.stack(images))
        return [(records[i], records[i + 1]) for i in range(0, len(records), 2)]

    def _few_pixels(self, radius: float) -> list[Array]:
        """Return two images of the ℓ1 ball that are far apart and differ in few pixels."""
        order = np.arange(self.num_pixels)
        if self.center_at == "middle":
            image = np.clip(radius - order, 0.0, 1.0)
            return [image, -image]
        # The images differ from the darkest in disjoint pixels, at the two ends of the image.
        first = np.where(order < self.num_pixels // 2, np.clip(radius - 2 * order, 0.0, 2.0), 0.0)
        second = np.clip(radius - 2 * order, 0.0, 2.0)[::-1]
        return [first - 1.0, np.where(first == 0, second, 0.0) - 1.0]


@lru_cache(maxsize=64)
def cosine_rows(size: int, count: int) -> Array:
    """Return the first `count` rows of the orthonormal DCT-II matrix of a size, shape (count, size)."""
    rows = np.asarray(scipy.fft.dct(np.eye(size), axis=0, norm="ortho")[:count], np.float64)
    rows.setflags(write=False)
    return rows


def _l1_ball_in_box(num_pixels: int, ball: L1Ball) -> float:
    """Return Δ₂ of an ℓ1 ball within the box of pixels, rounded up, by the module's formula."""
    side = 2 if ball.non_negative else 1
    q, f = divmod(Fraction(ball.radius), side)
    if ball.non_negative:
        others = min(2, max(0, num_pixels - 2 * q))
        return sqrt_up(4 * min(2 * q, num_pixels) + others * f**2)
    return 2 * sqrt_up(min(q, num_pixels) + (f**2 if q < num_pixels else 0))


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise PrivotError unless a shape is (height, width[, channels]) within the limits."""
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
