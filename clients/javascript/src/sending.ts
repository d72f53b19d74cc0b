/** Sending: a batch to a collector, or a share to one of two servers, with patience; and what it answered. */

import { PrivotError } from "./errors.js";
import { Report, writeBatch } from "./report.js";

const LONGEST_PAUSE = 60_000;
const TIMEOUT = 30_000;

export type Sending = {
  /** Further headers: a token, where the collector asks for one. */
  headers?: Record<string, string>;
  /** The form of the batch: people read JSON more easily, and it is a third longer. */
  format?: "binary" | "json";
  /**
   * Whether reports share a request, a hundred each: only where each is of another person. A batch shows that
   * its reports are of one device, so those of one person's weeks go apart, as they do by default.
   */
  together?: boolean;
  /** The analyst's public key, to which an `Outbox` seals reports for a shuffler. */
  sealTo?: string;
  /** How often a busy collector is asked. */
  tries?: number;
  /** Milliseconds before the second try, on average half of them; doubled from try to try. */
  pause?: number;
  fetch?: typeof fetch;
};

/** What a collector says of a batch: failures are listed, all others are on its disk. */
export type Answer = {
  accepted: number;
  duplicates: number;
  failed: { index: number; reason: string; message: string }[];
};

/** Post reports of one randomizer; throws a line that says why they were not answered. */
export async function post(
  url: string,
  fingerprint: string,
  reports: Uint8Array[],
  how: Sending,
): Promise<Answer> {
  const { format = "binary" } = how;
  const address = `${url.replace(/\/+$/, "")}/v1/campaigns/${fingerprint}/reports`;
  const type = format === "json" ? "application/json" : "application/vnd.privot.batch";
  const body = format === "json" ? jsonBatch(reports) : writeBatch(reports);
  // 422: a batch of which no report was kept is answered as one of which some were.
  return ask({ whom: "collector", what: "reports", address, type, body, count: reports.length, failures: 422 }, how);
}

/** Post a share to the leader or the helper; throws a line that says why it was not answered. */
export function postShare(role: string, url: string, share: Uint8Array<ArrayBuffer>, how: Sending): Promise<Answer> {
  const address = `${url.replace(/\/+$/, "")}/shares`;
  const type = "application/octet-stream";
  return ask({ whom: role, what: "shares", address, type, body: share, count: 1, failures: 409 }, how);
}

type Request = {
  /** Whom it asks, and what it sends, in the words of an error. */
  whom: string;
  what: string;
  address: string;
  type: string;
  body: string | Uint8Array<ArrayBuffer>;
  /** How many reports or shares. */
  count: number;
  /** The status of an answer that lists failures, beside those of success. */
  failures: number;
};

async function ask(
  { whom, what, address, type, body, count, failures }: Request,
  { headers = {}, tries = 5, pause = 1000, fetch = globalThis.fetch }: Sending,
): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    let [trouble, least] = [`the ${whom} cannot be reached`, 0];
    try {
      const response = await fetch(address, {
        method: "POST",
        headers: { "content-type": type, ...headers },
        body,
        credentials: "omit",
        referrerPolicy: "no-referrer",
        redirect: "error",
        signal: AbortSignal.timeout(TIMEOUT),
      });
      const text = await response.text();
      const told = response.ok || response.status === failures;
      const answer = told ? answerOf(text, count) : null;
      if (answer) return answer;
      trouble = response.ok ? `what answered is no ${whom}` : said(whom, response.status, text);
      if (isFinal(response.status)) attempt = tries;
      least = 1000 * Number(response.headers.get("retry-after") ?? 0) || 0;
    } catch {
      // No answer at all, or a part of one: as if it were busy.
    }
    if (attempt >= tries) throw new PrivotError(`${trouble}: the ${what} are kept, send them later`);
    const longest = Math.min(pause * 2 ** (attempt - 1), LONGEST_PAUSE);
    await sleep(Math.min(Math.max(Math.random() * longest, least), LONGEST_PAUSE));
  }
}

function jsonBatch(reports: Uint8Array[]): string {
  const own = reports.map((bytes) => Report.fromBytes(bytes).toJson());
  return JSON.stringify({ version: 1, reports: own });
}

/** Whether asking again would be answered alike. */
function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** A collector's answer, if it is one: other pages that answer with success acknowledge nothing. */
function answerOf(text: string, count: number): Answer | null {
  let answer: Partial<Answer> | null;
  try {
    answer = JSON.parse(text);
  } catch {
    return null;
  }
  const { accepted, duplicates, failed } = answer ?? {};
  if (!Array.isArray(failed) || !isCount(accepted) || !isCount(duplicates)) return null;
  const places = new Set(failed.map((each) => each?.index));
  const sound = failed.every((each) => isCount(each?.index) && each.index < count);
  const whole = places.size === failed.length && accepted + duplicates + failed.length === count;
  return sound && whole ? { accepted, duplicates, failed } : null;
}

function isCount(number: unknown): number is number {
  return Number.isInteger(number) && (number as number) >= 0;
}

function said(whom: string, status: number, text: string): string {
  let message: unknown;
  try {
    message = JSON.parse(text)?.error?.message;
  } catch {
    // The status alone, then.
  }
  return `the ${whom} answers ${status}${typeof message === "string" ? ` (${message})` : ""}`;
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
