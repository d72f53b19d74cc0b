/**
 * `node test/browser.mjs RUN [dist] [cases.json]`: what a page found in headless Chromium.
 *
 * RUN is conformance, outbox, ledger, counts, speed or encoding. Files are served on loopback, and the result is read from the
 * DOM that Chromium writes out.
 */

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const here = import.meta.dirname;
const [run, dist = join(here, "../dist"), cases = ""] = process.argv.slice(2);
const [vectors, shares] = ["vectors", "shares"].map((kind) => join(here, "../../../conformance", kind));
const roots = { client: dist, test: here, vectors, shares };
const types = { html: "text/html", js: "text/javascript", mjs: "text/javascript", json: "application/json" };

/** What is served at a path: a page at names of runs, and files below their roots. */
function served(path) {
  if (path === "/vectors" || path === "/shares") return ["json", JSON.stringify(readdirSync(roots[path.slice(1)]).sort())];
  if (path === "/cases.json") return ["json", readFileSync(cases)];
  const [, root, name] = /^\/(\w+)\/([\w.]+)$/.exec(path) ?? [];
  if (roots[root]) return [name.split(".").at(-1), readFileSync(join(roots[root], name))];
  return ["html", readFileSync(join(here, "browser.html"))];
}

const held = [];
const server = createServer((request, response) => {
  if (request.url === "/hold") return held.push(response);
  try {
    const [type, content] = request.url === "/done" ? ["json", "{}"] : served(request.url);
    response.writeHead(200, { "content-type": `${types[type]}; charset=utf-8` }).end(content);
  } catch {
    response.writeHead(404).end();
  }
  if (request.url === "/done") held.splice(0).forEach((waiting) => waiting.writeHead(404).end());
});

server.listen(0, "127.0.0.1", () => {
  const profile = mkdtempSync(join(tmpdir(), "privot-browser-"));
  const options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"];
  const address = `http://127.0.0.1:${server.address().port}/${run}`;
  const chromium = spawn(process.env.CHROMIUM ?? "chromium", [...options, `--user-data-dir=${profile}`, address]);
  const end = setTimeout(() => chromium.kill("SIGKILL"), 580_000);
  let dom = "";
  chromium.stdout.on("data", (part) => (dom += part));
  chromium.on("close", () => {
    clearTimeout(end);
    server.close();
    server.closeAllConnections();
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
    const text = /<pre id="result">(.*?)<\/pre>/s.exec(dom)?.[1] ?? "no page was written";
    console.log(text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"));
    process.exitCode = text.startsWith("{") && !text.startsWith('{"error"') ? 0 : 1;
  });
});
