"""Laws of labels: draws follow the shares, conditions choose among them, and pieces are bounded."""

import numpy as np
import torch

from central.declared_images import image_records
from privot.central import mixtures
from privot.central.mixtures import LabeledLaw


class Bright(LabeledLaw):
    """Label 1 is bright, label 0 dark."""

    kind = "bright"
    shares = torch.tensor([0.2, 0.8])

    def values(self, labels, rng):
        return labels[:, None, None].float().expand(-1, 2, 2)

    @classmethod
    def build(cls, records, fields, arrays):
        return cls()


RECORDS = image_records((2, 2), num_labels=2, degree=1)


def drawn(where, count=4000, of=None):
    pieces = list((of or Bright()).pieces(RECORDS, count, np.random.default_rng(0), where))
    return [np.array(piece["label"].to_pylist()).astype(int) for piece in pieces]


def test_labels_follow_the_shares(monkeypatch):
    monkeypatch.setattr(mixtures, "PIECE", 1500)
    pieces = drawn({})
    assert [len(piece) for piece in pieces] == [1500, 1500, 1000]
    assert abs(np.concatenate(pieces).mean() - 0.8) < 0.03


def test_a_label_that_was_lost_can_be_asked_for():
    lost = Bright()
    lost.shares = torch.tensor([1.0, 0.0])
    assert set(drawn({"label": "1"}, 20, lost)[0]) == {1}
    assert [len(piece) for piece in drawn({}, 0)] == [0]
