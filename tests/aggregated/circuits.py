"""Circuits of the draft that privot has no use for, by which more of its test vectors can be read."""

import numpy as np

from privot.aggregated.prio3 import Circuit


def bits(count):
    return np.array([1 << k for k in range(count)], object)


class SumVec(Circuit):
    """A vector of numbers of so many bits (7.4.3)."""

    joint_rand_length = 1

    def __init__(self, length, bits, chunk, field, algorithm):
        self.length = self.products = self.degree = length * bits
        self.bits, self.chunk, self.field, self.algorithm = bits, chunk, field, algorithm

    def evaluate(self, measurement, joint_rand, shares):
        return range_factors(self, measurement, int(joint_rand[0]), shares), 1, 0

    def encode(self, numbers):
        return np.array([x >> bit & 1 for x in numbers for bit in range(self.bits)], object)

    def truncate(self, measurement):
        return measurement.reshape(-1, self.bits) @ bits(self.bits) % self.field.modulus


class MultihotCountVec(Circuit):
    """A vector of bits, of which at most so many are 1."""

    algorithm = 4

    def __init__(self, length, most, chunk):
        self.count, self.chunk, self.width = length, chunk, most.bit_length()
        self.offset = 2**self.width - 1 - most
        self.length = self.products = self.degree = length + self.width

    def evaluate(self, measurement, joint_rand, shares):
        r, s = map(int, joint_rand)
        vector, weight = np.split(measurement, [self.count])
        part = self.offset * self.field.inverse(shares)
        gap = part + vector.sum() - weight @ bits(self.width)
        return range_factors(self, measurement, r, shares), s, s * s * gap % self.field.modulus

    def encode(self, vector):
        weight = sum(vector) + self.offset
        return np.array([*vector, *(weight >> bit & 1 for bit in range(self.width))], object)


def range_factors(circuit, measurement, r, shares):
    """r^(i + 1) x_i and x_i − 1, and the draft's padding."""
    factors = np.zeros((circuit.calls * circuit.chunk, 2), object)
    factors[:, 1] = -circuit.field.inverse(shares)
    factors[: len(measurement), 1] += measurement
    powers = circuit.field.powers(r, len(measurement) + 1)[1:]
    factors[: len(measurement), 0] = measurement * powers
    return factors % circuit.field.modulus
