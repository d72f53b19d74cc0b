// Draws what `privot campaign status --watch` learned so far, again and again.
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const EVERY = 2000;
const OF_SHARES =
  "Every browser sent one share to each of two servers, and a share by itself is random numbers. " +
  "Together the servers publish sums over many people, with noise, and nothing of anybody alone.";

async function refresh() {
  try {
    const answer = await fetch("status.json", { cache: "no-store" });
    if (answer.ok) draw(await answer.json());
    else at("numbers").textContent = "No report has been counted yet.";
  } catch {
    // Out of reach for a moment: what is shown stays.
  }
  setTimeout(refresh, EVERY);
}

function draw(status) {
  at("title").textContent = document.title = status.title;
  at("promise").textContent = status.promise;
  const { needed, opened } = status; // of shares for two servers
  if (needed) at("lead").textContent = OF_SHARES;
  at("numbers").replaceChildren(
    number(status.reports.toLocaleString("en"), needed ? "reports that both servers hold" : "reports"),
    ...(needed ? [number(needed.toLocaleString("en"), "are opened together, or more")] : []),
    ...(opened ? [number(opened.toLocaleString("en"), "were opened")] : []),
    number(status.guarantee, "what each person was promised"),
    ...(status.expected_error === null ? [] : [number(status.expected_error, "error to expect by now")]),
  );
  at("columns").replaceChildren(...status.columns.map((column) => (column.cells ? map(column) : bars(column))));
}

function number(value, words) {
  const box = document.createElement("div");
  const className = String(value).length > 24 ? "long" : "";
  box.append(Object.assign(document.createElement("b"), { textContent: value, className }), words);
  return box;
}

function figure(column, width, height) {
  const box = document.createElement("figure");
  box.append(Object.assign(document.createElement("figcaption"), { textContent: column.question }));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  box.append(svg);
  return [box, svg];
}

function add(svg, name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  svg.append(element);
}

/** Codes as horizontal bars with percentages; equal bins of a number as a histogram. */
function bars(column) {
  const { labels, shares, ends } = column;
  const most = Math.max(...shares, 1e-9);
  if (!ends) {
    const [box, svg] = figure(column, 640, 26 * labels.length);
    labels.forEach((label, row) => {
      add(svg, "text", { x: 150, y: 26 * row + 17, "text-anchor": "end" }, label.slice(0, 24));
      add(svg, "rect", { x: 160, y: 26 * row + 4, width: (400 * shares[row]) / most, height: 18, rx: 3, fill: "#1f5f8b" });
      add(svg, "text", { x: 168 + (400 * shares[row]) / most, y: 26 * row + 17 }, `${(100 * shares[row]).toFixed(1)}%`);
    });
    return box;
  }
  const [box, svg] = figure(column, 640, 170);
  const step = 620 / shares.length;
  shares.forEach((share, bin) => {
    const height = (130 * share) / most;
    add(svg, "rect", { x: 10 + bin * step + 0.5, y: 140 - height, width: step - 1, height, fill: "#1f5f8b" });
  });
  add(svg, "line", { x1: 10, x2: 630, y1: 140.5, y2: 140.5, stroke: "#dde3e8" });
  add(svg, "text", { x: 10, y: 160 }, ends[0]);
  add(svg, "text", { x: 630, y: 160, "text-anchor": "end" }, ends[1]);
  return box;
}

/** Places as a map of squares. */
function map(column) {
  const rows = column.cells.length;
  const [box, svg] = figure(column, 640, 640);
  const most = Math.max(...column.cells.flat(), 1e-9);
  const side = 640 / rows;
  column.cells.forEach((cells, row) =>
    cells.forEach((share, place) => {
      const shade = Math.sqrt(share / most);
      add(svg, "rect", { x: place * side, y: 640 - (row + 1) * side, width: side + 0.3, height: side + 0.3,
        fill: "#1f5f8b", "fill-opacity": shade.toFixed(3) });
    }));
  return box;
}

refresh();
