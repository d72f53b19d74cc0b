/** `node --test`: what is sealed is what RFC 9180 says, and the analyst in Python opens. */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const work = await mkdtemp(join(tmpdir(), "privot-"));
const source = new URL("../src/", import.meta.url).pathname;
const contents = 'export * from "./sealing.js"; export * from "./report.js";';
const stdin = { contents, resolveDir: source, loader: "ts" };
await build({ stdin, bundle: true, format: "esm", outfile: join(work, "sealing.mjs"), logLevel: "error" });
const { Report, seal, sealReport } = await import(pathToFileURL(join(work, "sealing.mjs")));
test.after(() => rm(work, { recursive: true }));

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
const hex = (array) => Buffer.from(array).toString("hex");
const CURVE = { name: "ECDH", namedCurve: "P-256" };
const suite = JSON.parse(await readFile(new URL("../../../conformance/sealed.json", import.meta.url), "utf-8"));

/** The key pair of a scalar and its point, in hexadecimal. */
async function pair(scalar, point) {
  const base64url = (part) => Buffer.from(part, "hex").toString("base64url");
  const [x, y] = [point.slice(2, 66), point.slice(66)].map(base64url);
  const jwk = { kty: "EC", crv: "P-256", x, y, d: base64url(scalar) };
  return {
    privateKey: await crypto.subtle.importKey("jwk", jwk, CURVE, false, ["deriveBits"]),
    publicKey: await crypto.subtle.importKey("raw", bytes(point), CURVE, true, []),
  };
}

for (const [name, vector] of Object.entries(suite)) {
  test(`vector ${name}`, async () => {
    const { content, recipient, info, aad, ephemeral, sealed } = vector;
    const key = await pair(ephemeral.private, ephemeral.public);
    const found = await seal(bytes(content), bytes(recipient.public), bytes(info), bytes(aad), key);
    assert.equal(hex(found), sealed);
  });
}

test("a sealed report has its content's id, no time, and another seal each time", async () => {
  const report = Report.fromBytes(bytes(suite.report.content));
  const key = Buffer.from(suite.report.recipient.public, "hex").toString("base64");
  const late = new Report(report.fingerprint, report.id, 7, report.payload);
  const [one, two] = [await sealReport(late, key), await sealReport(late, key)];
  assert.notEqual(hex(one.payload), hex(two.payload));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", one.payload));
  assert.equal(hex(one.id), hex(digest.slice(0, 16)));
  assert.equal(one.time, 0);
  assert.equal(one.payload.length, report.toBytes().length + 81);
});

test("what is no public key is refused", async () => {
  const report = Report.fromBytes(bytes(suite.report.content));
  for (const key of ["", "?", btoa("x".repeat(65)), btoa("x")]) await assert.rejects(sealReport(report, key), /P-256/);
});
