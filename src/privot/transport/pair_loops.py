r"""Compiled loops for ground costs and their gradients on the CPU, without arrays of n·m·d entries.

For points x (n, d) and y (m, d), and weights G (n, m), the gradients of ℓ1 and squared costs are

$$ \frac{∂}{∂x_{ik}} \sum_{ij} G_{ij} ‖x_i − y_j‖_1 = \sum_j G_{ij}\, \mathrm{sign}(x_{ik} − y_{jk}),
\quad \frac{∂}{∂x_{ik}} \sum_{ij} G_{ij} ‖x_i − y_j‖_2^2 = 2 \sum_j G_{ij} (x_{ik} − y_{jk}) , $$

with sign(0) = 0. The sign is the difference clipped to ±1, after all points are multiplied by a power of
two so large that only differences below $2^{−100}$ of the largest coordinate are smaller than 1.

With many coordinates, loops sum the costs of four points with four others along the coordinates, in
registers. With few, they compute the costs of one point with all others, which are transposed. Threads
divide the rows of the output: each calls a loop for its rows `first` to `last` − 1.

**Skipping.** With little regularization, a plan is nearly a matching: between images with noise of
standard deviation 1, 3 % of the pairs have all of the mass. Entries that are each below $10^{−6}/m$ of
their row's sum change its gradient by less than $10^{−6}$, the error of single precision, and are left
out. They are called negligible.
"""

# mypy: allow-untyped-defs

from privot.core.compiled import compiled, compiled_reordering, compiled_reordering_part

_NEGLIGIBLE = 1e-6  # relative to the sum of a row's weights
_STRIP = 400  # coordinates processed together, which of all points y fit in the cache


@compiled_reordering
def cost_blocks(first, last, x, y, out):
    """Write the ℓ1 costs of x (n, d) and y (m, d) to `out` (n, m); m and last − first are at least 4.

    If sizes are not multiples of 4, the last block overlaps the one before.
    """
    m, d = y.shape
    zero = x.dtype.type(0)
    for start in range(first, last, 4):
        i = min(start, last - 4)
        o0, o1, o2, o3 = out[i], out[i + 1], out[i + 2], out[i + 3]
        for begin in range(0, m, 4):
            j = min(begin, m - 4)
            c00 = c01 = c02 = c03 = c10 = c11 = c12 = c13 = zero
            c20 = c21 = c22 = c23 = c30 = c31 = c32 = c33 = zero
            for k in range(d):
                x0, x1, x2, x3 = x[i, k], x[i + 1, k], x[i + 2, k], x[i + 3, k]
                y0, y1, y2, y3 = y[j, k], y[j + 1, k], y[j + 2, k], y[j + 3, k]
                c00 += abs(x0 - y0)
                c01 += abs(x0 - y1)
                c02 += abs(x0 - y2)
                c03 += abs(x0 - y3)
                c10 += abs(x1 - y0)
                c11 += abs(x1 - y1)
                c12 += abs(x1 - y2)
                c13 += abs(x1 - y3)
                c20 += abs(x2 - y0)
                c21 += abs(x2 - y1)
                c22 += abs(x2 - y2)
                c23 += abs(x2 - y3)
                c30 += abs(x3 - y0)
                c31 += abs(x3 - y1)
                c32 += abs(x3 - y2)
                c33 += abs(x3 - y3)
            o0[j], o0[j + 1], o0[j + 2], o0[j + 3] = c00, c01, c02, c03
            o1[j], o1[j + 1], o1[j + 2], o1[j + 3] = c10, c11, c12, c13
            o2[j], o2[j + 1], o2[j + 2], o2[j + 3] = c20, c21, c22, c23
            o3[j], o3[j + 1], o3[j + 2], o3[j + 3] = c30, c31, c32, c33


@compiled
def cost_few(first, last, x, y_columns, out, power):
    """Write ℓ1 costs (power 1) or squared costs (power 2) to `out` (n, m); `y_columns` is yᵀ (d, m)."""
    d, m = y_columns.shape
    for i in range(first, last):
        for j in range(m):
            out[i, j] = 0
        for k in range(d):
            coordinate = x[i, k]
            if power == 1:
                for j in range(m):
                    out[i, j] += abs(coordinate - y_columns[k, j])
            else:
                for j in range(m):
                    difference = coordinate - y_columns[k, j]
                    out[i, j] += difference * difference


@compiled
def complete_squares(first, last, squares_x, squares_y, products):
    """Replace ⟨x_i, y_j⟩ (n, m) by ‖x_i‖² + ‖y_j‖² − 2⟨x_i, y_j⟩ ≥ 0, given squares (n,) and (m,)."""
    for i in range(first, last):
        for j in range(squares_y.size):
            square = (squares_x[i] + squares_y[j]) - 2 * products[i, j]
            products[i, j] = max(square, 0)


@compiled
def list_columns(weights, first, last, counts, columns):
    """List each row's columns whose weight is not negligible; return their total number.

    The list of row i begins row i of `columns` (n, m), and its length is written to `counts` (n,).
    """
    m = weights.shape[1]
    total = 0
    for i in range(first, last):
        limit = _NEGLIGIBLE / m * _mass(weights, i)
        count = 0
        for j in range(m):
            columns[i, count] = j  # overwritten by the next column if negligible: avoids a branch
            count += abs(weights[i, j]) > limit
        counts[i] = count
        total += count
    return total


@compiled_reordering_part
def _mass(weights, i):
    """Return the sum of the absolute weights of row i."""
    total = weights.dtype.type(0)
    for j in range(weights.shape[1]):
        total += abs(weights[i, j])
    return total


@compiled
def manhattan_gradient(first, last, x, y, weights, out):
    """Write at least 4 rows of the gradient Σ_j G_ij sign(x_ik − y_jk) to `out` (n, d).

    Points must be multiplied as the module describes. If the number of rows is not a multiple of 4, the
    last block overlaps the one before.
    """
    d = x.shape[1]
    for begin in range(0, d, _STRIP):
        end = min(d, begin + _STRIP)
        for start in range(first, last, 4):
            i = min(start, last - 4)
            for q in range(i, i + 4):
                for k in range(begin, end):
                    out[q, k] = 0
            _add_signs_of_four_rows(x, y, weights, out, i, begin, end)


@compiled
def sparse_manhattan_gradient(first, last, x, y, weights, counts, columns, out):
    """Write rows of the gradient of `manhattan_gradient`, summed over the columns of `list_columns`."""
    d = x.shape[1]
    for begin in range(0, d, _STRIP):
        end = min(d, begin + _STRIP)
        for i in range(first, last):
            for k in range(begin, end):
                out[i, k] = 0
            listed = columns[i, : counts[i]]
            _add_signs(x[i, begin:end], y, weights[i], listed, out[i, begin:end], begin)


@compiled_reordering_part
def _add_signs_of_four_rows(x, y, weights, out, i, begin, end):
    """Add the weighted signs to rows i … i + 3 of the gradient, for coordinates begin … end − 1.

    Two points y are read once for four rows, because reads of memory limit the loop's speed.
    """
    m = y.shape[0]
    one = x.dtype.type(1)
    p0, p1, p2, p3 = x[i, begin:end], x[i + 1, begin:end], x[i + 2, begin:end], x[i + 3, begin:end]
    s0, s1 = out[i, begin:end], out[i + 1, begin:end]
    s2, s3 = out[i + 2, begin:end], out[i + 3, begin:end]
    for j in range(0, m - 1, 2):
        y0, y1 = y[j, begin:end], y[j + 1, begin:end]
        w00, w01 = weights[i, j], weights[i, j + 1]
        w10, w11 = weights[i + 1, j], weights[i + 1, j + 1]
        w20, w21 = weights[i + 2, j], weights[i + 2, j + 1]
        w30, w31 = weights[i + 3, j], weights[i + 3, j + 1]
        for k in range(end - begin):
            first, second = y0[k], y1[k]
            part = w00 * min(max(p0[k] - first, -one), one)
            s0[k] += part + w01 * min(max(p0[k] - second, -one), one)
            part = w10 * min(max(p1[k] - first, -one), one)
            s1[k] += part + w11 * min(max(p1[k] - second, -one), one)
            part = w20 * min(max(p2[k] - first, -one), one)
            s2[k] += part + w21 * min(max(p2[k] - second, -one), one)
            part = w30 * min(max(p3[k] - first, -one), one)
            s3[k] += part + w31 * min(max(p3[k] - second, -one), one)
    if m % 2:
        last = y[m - 1, begin:end]
        for k in range(end - begin):
            s0[k] += weights[i, m - 1] * min(max(p0[k] - last[k], -one), one)
            s1[k] += weights[i + 1, m - 1] * min(max(p1[k] - last[k], -one), one)
            s2[k] += weights[i + 2, m - 1] * min(max(p2[k] - last[k], -one), one)
            s3[k] += weights[i + 3, m - 1] * min(max(p3[k] - last[k], -one), one)


@compiled_reordering_part
def _add_signs(point, y, weights, columns, sums, begin):
    """Add the weighted signs of the listed columns to a part of one row of the gradient.

    `point` and `sums` contain the coordinates from `begin` on. Each row of y is sliced separately,
    because rows of a sliced y have an unknown stride and are not vectorized.
    """
    one, end = point.dtype.type(1), begin + point.size
    whole = columns.size // 8 * 8
    for index in range(0, whole, 8):
        j = columns[index : index + 8]
        y0, y1 = y[j[0], begin:end], y[j[1], begin:end]
        y2, y3 = y[j[2], begin:end], y[j[3], begin:end]
        y4, y5 = y[j[4], begin:end], y[j[5], begin:end]
        y6, y7 = y[j[6], begin:end], y[j[7], begin:end]
        w0, w1, w2, w3 = weights[j[0]], weights[j[1]], weights[j[2]], weights[j[3]]
        w4, w5, w6, w7 = weights[j[4]], weights[j[5]], weights[j[6]], weights[j[7]]
        for k in range(point.size):
            coordinate = point[k]
            total = w0 * min(max(coordinate - y0[k], -one), one)
            total += w1 * min(max(coordinate - y1[k], -one), one)
            total += w2 * min(max(coordinate - y2[k], -one), one)
            total += w3 * min(max(coordinate - y3[k], -one), one)
            total += w4 * min(max(coordinate - y4[k], -one), one)
            total += w5 * min(max(coordinate - y5[k], -one), one)
            total += w6 * min(max(coordinate - y6[k], -one), one)
            total += w7 * min(max(coordinate - y7[k], -one), one)
            sums[k] += total
    for index in range(whole, columns.size):
        row = y[columns[index], begin:end]
        weight = weights[columns[index]]
        for k in range(point.size):
            sums[k] += weight * min(max(point[k] - row[k], -one), one)


@compiled_reordering
def squared_gradient(first, last, x, y, weights, counts, columns, out):
    """Write rows of the gradient 2 Σ_j G_ij (x_ik − y_jk), summed over the columns of `list_columns`."""
    d = x.shape[1]
    for i in range(first, last):
        for k in range(d):
            out[i, k] = 0
        count = counts[i]
        whole = count // 4 * 4
        for c in range(0, whole, 4):
            j0, j1, j2, j3 = columns[i, c], columns[i, c + 1], columns[i, c + 2], columns[i, c + 3]
            w0, w1 = 2 * weights[i, j0], 2 * weights[i, j1]
            w2, w3 = 2 * weights[i, j2], 2 * weights[i, j3]
            for k in range(d):
                coordinate = x[i, k]
                out[i, k] += (w0 * (coordinate - y[j0, k]) + w1 * (coordinate - y[j1, k])) + (
                    w2 * (coordinate - y[j2, k]) + w3 * (coordinate - y[j3, k])
                )
        for c in range(whole, count):
            j = columns[i, c]
            weight = 2 * weights[i, j]
            for k in range(d):
                out[i, k] += weight * (x[i, k] - y[j, k])


@compiled_reordering
def gradient_few(first, last, x, y_columns, weights, out, power):
    """Write rows of the ℓ1 (power 1) or squared (power 2) gradient; `y_columns` is yᵀ (d, m).

    For power 1, points must be multiplied as for `manhattan_gradient`.
    """
    d, m = y_columns.shape
    one = x.dtype.type(1)
    for i in range(first, last):
        for k in range(d):
            coordinate = x[i, k]
            total = x.dtype.type(0)
            if power == 1:
                for j in range(m):
                    total += weights[i, j] * min(max(coordinate - y_columns[k, j], -one), one)
            else:
                for j in range(m):
                    total += weights[i, j] * (coordinate - y_columns[k, j])
                total += total
            out[i, k] = total
