// Precomputed forecasts, row by row: FORECASTS is written when the site is built (site/trust.py).
(() => {
  const PLACES = [
    ["local", "nobody", 1], ["shuffled", "a shuffler, and the other senders", 2],
    ["aggregated", "one of two servers", 2], ["central", "a curator", 1],
  ];
  const NAMES = {
    towns: ["a map of towns", "Error (W₂, box of side 2)"],
    accidents: ["a map of road accidents", "Error (W₂, box of side 2)"],
    adult: ["ten columns of a census", "Error of a pair of columns (total variation)"],
  };
  const part = (name) => document.getElementById(`trust-${name}`);
  const values = (rows, key) => [...new Set(rows.map((row) => row[key]))].sort((a, b) => a - b);
  const whole = (number) => number.toLocaleString("en").replaceAll(",", " ");
  const of = (work) => FORECASTS.filter((row) => row.plan === work);
  const works = [...new Set(FORECASTS.map((row) => row.plan))];
  let work = works[0];

  const cell = (line, content) => {
    const made = document.createElement("td");
    made.append(content);
    line.append(made);
    return made;
  };

  function bar(error, floor, most) {
    const made = document.createElement("div");
    made.className = "bar";
    for (const [kind, share] of [["i", error / most], ["b", floor / most]]) {
      const mark = document.createElement(kind);
      mark.style[kind === "i" ? "width" : "left"] = `${100 * share}%`;
      made.append(mark);
    }
    return made;
  }

  function show() {
    const rows = of(work);
    const epsilon = values(rows, "epsilon")[part("epsilon").value];
    const most = Math.max(...rows.map((row) => row.error));
    part("people").textContent = whole(rows[0].people);
    part("epsilon-is").value = String(epsilon);
    part("measure").textContent = NAMES[work][1];
    const lines = PLACES.map(([where, trusted, servers]) => {
      const row = rows.find((each) => each.epsilon === epsilon && each.where === where);
      const line = document.createElement("tr");
      cell(line, `${trusted} (${where})`);
      cell(line, row.error.toFixed(4)).append(bar(row.error, row.floor, most));
      cell(line, row.epsilon0 === null ? "none" : row.epsilon0.toFixed(2));
      cell(line, String(servers));
      cell(line, row.bytes === null ? "the record" : whole(row.bytes));
      part("floor").textContent = row.floor.toFixed(4);
      return line;
    });
    part("rows").replaceChildren(...lines);
  }

  function choose(chosen) {
    work = chosen;
    const most = values(of(work), "epsilon").length - 1;
    Object.assign(part("epsilon"), { max: most, value: Math.min(most, 2) });
    show();
  }

  for (const each of works) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "trust-data", checked: each === work });
    input.addEventListener("change", () => choose(each));
    label.append(input, ` ${NAMES[each][0]}`);
    part("data").append(label);
  }
  part("epsilon").addEventListener("input", show);
  choose(work);
})();
