"""Names of the networks that generators can be: plain text, which needs no PyTorch."""

from typing import Literal

Architecture = Literal["mlp", "dcgan", "dcgan_unnormalized"]
