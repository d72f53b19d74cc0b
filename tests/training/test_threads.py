"""What a step asks of the machine holds inside its block only."""

import pytest
import torch

from privot.training.threads import short_products, threads_for


@pytest.mark.parametrize(("num_entries", "inside"), [(2**20, 1), (2**20 + 1, 3)])
def test_small_steps_are_one_threads_work(num_entries, inside):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(ZeroDivisionError), threads_for(num_entries):
            assert torch.get_num_threads() == inside
            raise ZeroDivisionError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_products_are_short_inside_alone():
    before = torch.get_float32_matmul_precision()
    with short_products():
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before
