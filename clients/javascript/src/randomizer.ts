/**
 * Randomizers and encoders: is a text the one that was published, and what is its program?
 *
 * A page pins what it trusts: the fingerprint, or the public key of who signs, or both. Whoever pins
 * neither trusts the server that the text came from.
 */

import { requireProgram } from "./checks.js";
import { PrivotError } from "./errors.js";
import { isWithin } from "./exact.js";
import type { Program } from "./program.js";
import { toHex } from "./report.js";
import type { ShareProgram } from "./shares.js";

const MARK = ',"fingerprint":"';

/**
 * What one report promises under local privacy; δ is 0 where it is pure, ε infinite where nothing is promised.
 * Of shuffled reports the schema promises more together, and each leaves the device sealed.
 */
export type Promised = { epsilon: number; delta: number; shuffled: boolean };

export type Pins = {
  /** Of the randomizer or encoder, 64 hexadecimal digits. */
  fingerprint?: string;
  /** Ed25519, 32 bytes in base64. */
  publicKey?: string;
  /** Of the text, 64 bytes in base64: the content of its file `.sig`. */
  signature?: string;
};

/** The fingerprint, the program and the promise of a randomizer's text; refused if it is not what the pins say, or exceeds what it states. */
export async function readRandomizer(
  text: string,
  pins: Pins,
): Promise<{ fingerprint: string; program: Program; promise: Promised }> {
  const line = await signedLine(text, pins);
  const at = line.lastIndexOf(MARK);
  const body = line.slice(0, Math.max(at, 0)) + "}";
  const found = await digestOf(body);
  if (at < 0 || line.slice(at + MARK.length) !== found + '"}') {
    throw new PrivotError("the randomizer was altered: fetch it again from who published it");
  }
  requirePinned("randomizer", found, pins);
  const held = parsed("randomizer", body);
  const program: Program | null = held?.device ?? null;
  if (program?.version !== 2) {
    throw new PrivotError(
      "the randomizer has no program that this device runs: its mechanisms draw with logarithms, " +
        "or it is from a newer version",
    );
  }
  requireProgram(program);
  const { kind, neighboring, epsilon, delta = 0 } = held.guarantee ?? {};
  if (!(typeof epsilon === "number" && epsilon >= 0 && epsilon < Infinity)) {
    throw new PrivotError("the randomizer promises nothing: calibrate it again");
  }
  if (!isWithin(program, epsilon)) {
    throw new PrivotError(
      `the randomizer's program exceeds the epsilon ${epsilon} that it states, so nothing is drawn by it: ` +
        "calibrate it again",
    );
  }
  const pure = kind === "PureDP";
  const known = (pure || kind === "ApproximateDP") && neighboring === "local";
  const shuffled = held.schema?.promise?.where === "shuffled";
  return { fingerprint: found, program, promise: { epsilon: known ? epsilon : Infinity, delta: pure ? 0 : delta, shuffled } };
}

/** An encoder's fingerprint and program, and whether its shares have proofs; refused if it is not what the pins say. */
export async function readEncoder(
  text: string,
  pins: Pins,
): Promise<{ fingerprint: string; program: ShareProgram | null; proofs: unknown }> {
  const line = await signedLine(text, pins);
  const fingerprint = await digestOf(line);
  requirePinned("encoder", fingerprint, pins);
  const held = parsed("encoder", line);
  return { fingerprint, program: held?.device ?? null, proofs: held?.proofs };
}

/** The one line of a text, without space around it; refused if a key is pinned that did not sign the text. */
async function signedLine(text: string, pins: Pins): Promise<string> {
  if (!globalThis.crypto?.subtle) {
    throw new PrivotError("there is no WebCrypto here: serve the page by https, or from localhost");
  }
  if (pins.publicKey !== undefined) await requireSignature(text, pins.publicKey, pins.signature);
  return text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
}

function requirePinned(what: string, fingerprint: string, pins: Pins): void {
  if (pins.fingerprint !== undefined && pins.fingerprint !== fingerprint) {
    throw new PrivotError(`the ${what} is not the pinned one: its fingerprint is another`);
  }
}

/** SHA-256 of a text, in hexadecimal. */
async function digestOf(text: string): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", encoded(text))));
}

function parsed(what: string, body: string) {
  try {
    return JSON.parse(body);
  } catch {
    throw new PrivotError(`the ${what} is not readable: fetch it again from who published it`);
  }
}

/** Refuse a text that the holder of a public key did not sign. */
export async function requireSignature(text: string, publicKey: string, signature?: string): Promise<void> {
  if (signature === undefined) {
    throw new PrivotError("this is not signed: give the content of its .sig");
  }
  const [key, signed] = [fromBase64(publicKey, 32, "publicKey"), fromBase64(signature, 64, "signature")];
  let verifier;
  try {
    verifier = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  } catch {
    throw new PrivotError("no Ed25519 signature can be verified here: pin the fingerprint instead");
  }
  if (!(await crypto.subtle.verify({ name: "Ed25519" }, verifier, signed, encoded(text)))) {
    throw new PrivotError("the signature is not of the pinned key and this text");
  }
}

function encoded(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function fromBase64(text: string, length: number, name: string): Uint8Array<ArrayBuffer> {
  let bytes = "";
  try {
    bytes = atob(text.trim());
  } catch {
    // Too short, which is refused below.
  }
  if (bytes.length !== length) throw new PrivotError(`${name} is not ${length} bytes in base64`);
  return Uint8Array.from(bytes, (character) => character.charCodeAt(0));
}
