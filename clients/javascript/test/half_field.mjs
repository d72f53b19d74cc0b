/**
 * `node test/half_field.mjs`: shares over a field of about 2^127 numbers, in hexadecimal.
 *
 * Half of all draws are no elements of it, and are rejected. In the draft's field one of 2^59 is: no vector has one.
 */

import { numbers, prover } from "./prover.mjs";

const { histogram, RAND_BYTES, shard } = await prover((text) =>
  text
    .replace("2n ** 128n - 7n * 2n ** 66n + 1n", "(2n ** 61n - 23n) * 2n ** 66n + 1n")
    .replace("power(7n, 2n ** 62n - 7n)", "power(5n, 2n ** 61n - 23n)"),
);
const upTo = (count) => Uint8Array.from({ length: count }, (_, k) => k);
const shares = shard(histogram(50), numbers(50, { 7: 1 }), upTo(16), upTo(RAND_BYTES));
console.log(JSON.stringify(shares.map((share) => Buffer.from(share).toString("hex"))));
