import torch
from hypothesis import given
from hypothesis import strategies as st

from privot.central.records import lift, square


@given(seed=st.integers(0, 2**32), size=st.integers(1, 9), anchor=st.floats(0.01, 100))
def test_squares_lie_on_the_sphere_and_never_point_apart(seed, size, anchor):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(6, size, generator=rng, dtype=torch.float64) * 10
    records = square(lift(x, anchor))
    assert torch.allclose(records.norm(dim=1), torch.ones(6).double(), atol=1e-12)
    assert (records @ records.T).min() > -1e-12
    assert torch.allclose(
        records @ records.T, (lift(x, anchor) @ lift(x, anchor).T) ** 2, atol=1e-6
    )
