/**
 * Sealed reports: encrypted here to the analyst, so that a shuffler sees who sends, and not what.
 *
 * HPKE in base mode (RFC 9180) with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM, one message,
 * by WebCrypto. `docs/reference/wire.md` says what is sealed, and what travels.
 */

import { PrivotError } from "./errors.js";
import { joined } from "./payload.js";
import { Report } from "./report.js";

type Bytes = Uint8Array<ArrayBuffer>;

const POINT_BYTES = 65;
const CURVE = { name: "ECDH", namedCurve: "P-256" };
const KEM = joined(text("KEM"), Uint8Array.of(0, 16));
const SUITE = joined(text("HPKE"), Uint8Array.of(0, 16, 0, 1, 0, 1));
const NOTHING = new Uint8Array(0);

/** A report sealed to the analyst, without its time; its id is of its content. */
export async function sealReport(report: Report, publicKey: string): Promise<Report> {
  let point: Bytes;
  try {
    point = Uint8Array.from(atob(publicKey), (letter) => letter.charCodeAt(0));
    await importPoint(point);
  } catch {
    throw new PrivotError("the analyst's public key is no point of P-256, 65 bytes in base64");
  }
  const info = joined(text("privot sealed report 1"), report.fingerprint);
  const sealed = await seal(report.withoutTime().toBytes(), point, info);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", sealed));
  return new Report(report.fingerprint, digest.slice(0, Report.ID_BYTES), 0, sealed);
}

/** Encapsulated key, ciphertext and tag; tests give the ephemeral key and associated data. */
export async function seal(
  content: Bytes,
  recipient: Bytes,
  info: Bytes,
  aad: Bytes = NOTHING,
  ephemeral?: CryptoKeyPair,
): Promise<Bytes> {
  const pair = ephemeral ?? (await crypto.subtle.generateKey(CURVE, true, ["deriveBits"]));
  const encapsulated = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const dh = { name: "ECDH", public: await importPoint(recipient) };
  const shared = new Uint8Array(await crypto.subtle.deriveBits(dh, pair.privateKey, 256));
  const prk = await extract(KEM, NOTHING, "eae_prk", shared);
  const secret = await expand(KEM, prk, "shared_secret", joined(encapsulated, recipient), 32);

  const hashes = [await extract(SUITE, NOTHING, "psk_id_hash", NOTHING), await extract(SUITE, NOTHING, "info_hash", info)];
  const context = joined(Uint8Array.of(0), ...hashes); // 0: base mode
  const schedule = await extract(SUITE, secret, "secret", NOTHING);
  const raw = await expand(SUITE, schedule, "key", context, 16);
  const iv = await expand(SUITE, schedule, "base_nonce", context, 12);
  const key = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt"]);
  const how = { name: "AES-GCM", iv, additionalData: aad };
  return joined(encapsulated, new Uint8Array(await crypto.subtle.encrypt(how, key, content)));
}

async function importPoint(point: Bytes): Promise<CryptoKey> {
  if (point.length !== POINT_BYTES) throw new PrivotError("a point has another length");
  return crypto.subtle.importKey("raw", point, CURVE, false, []);
}

/** LabeledExtract. An empty salt is as many zeros as a hash has bytes. */
function extract(suite: Bytes, salt: Bytes, label: string, content: Bytes): Promise<Bytes> {
  return hmac(salt.length ? salt : new Uint8Array(32), joined(text("HPKE-v1"), suite, text(label), content));
}

/** LabeledExpand, of no more bytes than one block of SHA-256. */
async function expand(suite: Bytes, prk: Bytes, label: string, content: Bytes, size: number): Promise<Bytes> {
  const labeled = joined(Uint8Array.of(0, size), text("HPKE-v1"), suite, text(label), content);
  return (await hmac(prk, joined(labeled, Uint8Array.of(1)))).slice(0, size);
}

async function hmac(raw: Bytes, content: Bytes): Promise<Bytes> {
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, content));
}

function text(words: string): Bytes {
  return new TextEncoder().encode(words);
}
