/*
 * The playground's page: a point to drag, its reports, and a town that is asked.
 *
 * Every report is drawn by the client for browsers, byte for byte the one of campaigns, from randomizers that
 * `privot.Randomizer.calibrate` made when the site was built (`client.js`, by site/playground.py). Nothing leaves the
 * page: it fetches nothing, sends nothing and keeps nothing.
 */
"use strict";

(async () => {
  const at = (id) => document.getElementById(id);
  const { client, randomizers, epsilons } = PLAYGROUND;
  const KM = 10;
  const ROOM = 2.2; // around the map, where reports may lie
  const TIMES = 20;
  const B = [7.2, 8];
  const WORDS = { window: "windows", laplace: "Laplace noise" };
  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  let home = [3.2, 3.4];
  const [devices, shown, painted] = [{}, {}, {}];
  let turn = 0; // of the town: a later one ends an earlier

  const units = (place) => place.map((km) => (2 * km) / KM - 1);
  const kilometers = (point) => point.map((u) => ((u + 1) * KM) / 2);
  const mechanism = () => document.querySelector("input[name=mechanism]:checked").value;
  const index = () => Number(at("epsilon").value);
  const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

  /** A bound e^ε, never below it: 1.65, 2.72, 7.39, 21, 55. */
  function fold(epsilon) {
    const bound = Math.exp(epsilon);
    return bound < 10 ? String(Math.ceil(bound * 100) / 100) : grouped(Math.ceil(bound));
  }

  /** A device for each mechanism at each ε, read when it is first wanted. */
  async function deviceOf(kind, step) {
    const name = `${kind} ${step}`;
    if (!devices[name]) {
      const device = await Device.load(randomizers[kind][step]);
      devices[name] = { device, law: lawOf(device.program) };
    }
    return devices[name];
  }

  /** What a device that lives there would send. */
  function ask({ device, law }, place) {
    return law.read(device.report({ east: place[0], north: place[1] }).payload);
  }

  // You.

  function moveTo(place) {
    home = place.map((km) => Math.min(Math.max(km, 0), KM));
    return showYou();
  }

  async function showYou() {
    const [kind, step] = [mechanism(), index()];
    const own = await deviceOf(kind, step);
    const reports = Array.from({ length: TIMES }, () => ask(own, home));
    drawHandle();
    const circle = at("window");
    circle.style.display = own.law.radius === undefined ? "none" : "";
    place(circle, home, "cx", "cy");
    circle.setAttribute("r", ((own.law.radius ?? 0) * KM) / (own.law.steps ?? 1));
    at("reports").setAttribute("class", `by-${kind}`);
    at("reports").replaceChildren(...reports.map((report, k) => mark(kilometers(own.law.units(report)), k === 0)).reverse());
    tell(own.law, reports);
    shown.reports = reports;
  }

  function place(element, [east, north], x, y) {
    element.setAttribute(x, east);
    element.setAttribute(y, KM - north);
  }

  function drawHandle() {
    const [east, north] = home;
    at("handle").setAttribute("transform", `translate(${east} ${KM - north})`);
    at("handle").setAttribute("aria-valuenow", east.toFixed(1));
    at("handle").setAttribute("aria-valuetext", `${east.toFixed(1)} km east, ${north.toFixed(1)} km north`);
  }

  /** A dot; at the edge of the picture an arrow that points at what lies beyond. */
  function mark(point, sent) {
    const held = point.map((km) => Math.min(Math.max(km, -ROOM), KM + ROOM));
    const beyond = Math.hypot(point[0] - held[0], point[1] - held[1]) > 0;
    const shape = document.createElementNS("http://www.w3.org/2000/svg", beyond ? "path" : "circle");
    shape.setAttribute("class", sent ? "report sent" : "report");
    const size = sent ? 0.3 : 0.2;
    if (beyond) {
      const angle = (Math.atan2(held[1] - point[1], point[0] - held[0]) * 180) / Math.PI;
      shape.setAttribute("d", `M ${1.3 * size} 0 L ${-size} ${size} L ${-size} ${-size} Z`);
      shape.setAttribute("transform", `translate(${held[0]} ${KM - held[1]}) rotate(${angle})`);
    } else {
      place(shape, held, "cx", "cy");
      shape.setAttribute("r", size);
    }
    return shape;
  }

  function tell(law, reports) {
    const [first] = reports;
    const chances = [home, B].map((each) => law.probability(first, law.nearest(units(each))));
    const far = distance(kilometers(law.units(first)), home);
    at("one").textContent = `It lies ${far.toFixed(1)} km from your home, and is ${compared(chances[0] / chances[1])}.`;
    const near = reports.filter((report) => distance(kilometers(law.units(report)), home) <= 2).length;
    const inside = law.radius && reports.filter((r) => law.probability(r, law.nearest(units(home))) === law.inside).length;
    at("twenty").textContent = law.radius
      ? `Were you asked ${TIMES} times, ${inside} would lie in your window, the circle, and the others anywhere.`
      : `Were you asked ${TIMES} times, ${near} would lie within 2 km of you. Arrows: beyond the picture.`;
  }

  function compared(ratio) {
    if (Math.abs(Math.log(ratio)) < 0.05) return "as likely from B as from A";
    const times = Math.max(ratio, 1 / ratio);
    const [more, less] = ratio > 1 ? ["A", "B"] : ["B", "A"];
    return `${grouped(Number(times.toPrecision(2)))} times likelier from ${more} than from ${less}`;
  }

  function distance([east, north], [otherEast, otherNorth]) {
    return Math.hypot(east - otherEast, north - otherNorth);
  }

  /** Where a pointer is, in kilometers. */
  function pointed(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(at("area").getScreenCTM().inverse());
    return [point.x, KM - point.y];
  }

  // Everybody.

  /** Do work that yields its share done, and give the page a turn every few milliseconds; null if it is outdated. */
  async function chunked(work, own, report) {
    let pause = performance.now() + 20;
    for (let next = work.next(); ; next = work.next()) {
      if (next.done) return next.value;
      if (performance.now() < pause) continue;
      report(next.value);
      await new Promise((resolve) => setTimeout(resolve));
      if (own !== turn) return null;
      pause = performance.now() + 20;
    }
  }

  function* askAll(own, homes) {
    const reports = [];
    for (const one of homes) {
      reports.push(ask(own, kilometers(one)));
      if (reports.length % 50 === 0) yield reports.length / homes.length;
    }
    return reports;
  }

  async function showTown(fresh = false) {
    const own = ++turn;
    const [town, count, step] = [at("town").value, Number(at("people").value), index()];
    if (fresh || shown.town !== town || shown.homes.length !== count) {
      Object.assign(shown, { town, homes: homesOf(town, count) });
      shown.truth = mapOf(shown.homes);
      paint("truth", shown.homes, `Where ${grouped(count)} made-up people live`);
      drawHomes();
    }
    shown.done = null;
    for (const [place, kind] of ["window", "laplace"].entries()) {
      const cards = document.querySelectorAll(`.maps .${kind}`);
      cards.forEach((card) => card.classList.add("busy"));
      const device = await deviceOf(kind, step);
      const during = (words, from, to) => (done) => {
        at("progress").value = (place + from + (to - from) * done) / 2;
        at("status").textContent = `${WORDS[kind]}: ${words}`;
      };
      const reports = await chunked(askAll(device, shown.homes), own, during("everybody reports", 0, 0.7));
      if (reports === null) return;
      const map = await chunked(learn(device.law, reports), own, during("the map is learned", 0.7, 1));
      if (map === null) return;
      showMaps(kind, device.law, reports, map);
      cards.forEach((card) => card.classList.remove("busy"));
    }
    at("progress").value = 1;
    at("status").textContent = `${grouped(count)} reports by each mechanism, at ε = ${epsilons[step]}`;
    shown.done = { town, count, epsilon: epsilons[step] };
  }

  function showMaps(kind, law, reports, map) {
    const places = reports.map((report) => law.units(report));
    const [sent, off] = [mapOf(places), places.filter((u) => Math.max(...u.map(Math.abs)) > 1).length];
    const percent = (share) => Math.round(100 * share);
    shown[kind] = { sent, learned: map, misplaced: [sent, map].map((each) => misplaced(each, shown.truth)) };
    const [before, after] = shown[kind].misplaced.map((share) => `${percent(share)} of 100 misplaced`);
    const beyond = off ? `; ${percent(off / places.length)} are off the map` : "";
    const told = [`Reports by ${WORDS[kind]}: ${before}${beyond}`, `Learned from reports by ${WORDS[kind]}: ${after}`];
    paint(`${kind}-sent`, places, told[0], before + beyond);
    paint(`${kind}-learned`, peopleOf(map, places.length), told[1], after);
  }

  /** A dot for each place, darker where there are many. */
  function paint(id, places, label, caption) {
    const canvas = at(id);
    painted[id] = { places, label, caption };
    const side = Math.round(Math.max(canvas.clientWidth, 80) * Math.min(devicePixelRatio, 2));
    Object.assign(canvas, { width: side, height: side });
    const context = canvas.getContext("2d");
    const dot = Math.max(1, Math.round(side / 170));
    const counts = new Uint16Array(side * side);
    for (const [u, v] of places) {
      const [x, y] = [Math.floor(((u + 1) * side) / 2), Math.floor(((1 - v) * side) / 2)];
      for (let down = 0; down < dot; down++) {
        for (let right = 0; right < dot; right++) {
          if (x + right >= 0 && x + right < side && y + down >= 0 && y + down < side) counts[(y + down) * side + x + right]++;
        }
      }
    }
    context.fillStyle = getComputedStyle(canvas.parentElement).getPropertyValue("--mark").trim();
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
    const strength = Math.min(1, 60 / Math.sqrt(places.length));
    const image = context.createImageData(side, side);
    counts.forEach((count, pixel) => image.data.set([red, green, blue, 255 * (1 - (1 - strength) ** count)], 4 * pixel));
    context.putImageData(image, 0, 0);
    canvas.setAttribute("aria-label", label);
    if (caption) canvas.parentElement.querySelector("span").textContent = caption;
  }

  function repaint() {
    for (const [id, { places, label, caption }] of Object.entries(painted)) paint(id, places, label, caption);
  }

  /** Some of the town's homes, behind you. */
  function drawHomes() {
    const some = shown.homes.slice(0, 700).map(kilometers);
    at("homes").setAttribute("d", some.map(([east, north]) => `M${east.toFixed(2)} ${(KM - north).toFixed(2)}h0`).join(""));
  }

  // What visitors do.

  function showEpsilon() {
    const epsilon = epsilons[index()];
    at("told").textContent = `ε = ${epsilon}`;
    at("epsilon").setAttribute("aria-valuetext", `epsilon ${epsilon}`);
    at("fold").textContent = `${fold(epsilon)}-fold`;
  }

  function trouble(error) {
    at("trouble").textContent = String(error?.message ?? error);
    at("trouble").hidden = false;
  }

  function listen() {
    const soon = (act) => (event) => Promise.resolve(act(event)).catch(trouble);
    at("epsilon").addEventListener("input", soon(() => (showEpsilon(), Promise.all([showYou(), showTown()]))));
    document.querySelectorAll("input[name=mechanism]").forEach((each) => each.addEventListener("change", soon(showYou)));
    at("again").addEventListener("click", soon(showYou));
    at("town").addEventListener("change", soon(() => showTown()));
    at("people").addEventListener("change", soon(() => showTown()));
    at("everybody").addEventListener("click", soon(() => showTown(true)));
    at("area").addEventListener("click", soon((event) => at("handle").contains(event.target) || moveTo(pointed(event))));
    const handle = at("handle");
    handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
    handle.addEventListener("pointermove", soon((event) => handle.hasPointerCapture(event.pointerId) && moveTo(pointed(event))));
    handle.addEventListener("keydown", soon((event) => {
      const move = MOVES[event.key];
      if (!move) return null;
      event.preventDefault();
      const step = event.shiftKey ? 1 : 0.2;
      return moveTo(home.map((km, axis) => km + step * move[axis]));
    }));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    new MutationObserver(repaint).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
    new ResizeObserver(repaint).observe(at("truth"));
  }

  // A page that is opened as a file may import no file beside it, but may import its own text.
  const { Device } = await import(URL.createObjectURL(new Blob([client], { type: "text/javascript" })));
  try {
    at("epsilon").max = epsilons.length - 1;
    at("epsilon").value = epsilons.indexOf(4);
    at("other").setAttribute("transform", `translate(${B[0]} ${KM - B[1]})`);
    const lines = Array.from({ length: KM - 1 }, (_, k) => `M${k + 1} 0V10M0 ${k + 1}H10`);
    at("lines").setAttribute("d", lines.join(""));
    showEpsilon();
    listen();
    globalThis.playground = { shown, deviceOf, ask }; // what tests look at
    await showYou();
    await showTown();
  } catch (error) {
    trouble(error);
  }
})();
