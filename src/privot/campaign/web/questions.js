// A campaign's rule, the questions of its form, and the record that somebody's answers make.
import { limitsOf } from "./privot.js";

/** The text that asks for a column. */
export const asker = (questions) => (name) => (Object.hasOwn(questions, name) ? questions[name] : name);

/** A campaign's rule, a `Device` or an `Encoder`, whose fingerprint and signer the page pins. */
export async function pinned(kind, name, { fingerprint, publicKey }) {
  const files = [name, `${name}.sig`].map(async (file) => (await fetch(file)).text());
  const [text, signature] = await Promise.all(files);
  return kind.load(text, { fingerprint, publicKey, signature });
}

/** One box of inputs for each column that a program takes. */
export function boxes(columns, asked) {
  return Object.entries(columns).map(([name, take]) => question(name, take, asked(name)));
}

function question(name, take, words) {
  const box = document.createElement("fieldset");
  box.dataset.column = name;
  box.append(Object.assign(document.createElement("legend"), { textContent: words }));
  const note = Object.assign(document.createElement("p"), { className: "trouble", role: "alert" });
  const required = !(take.nullable ?? take.missing !== null);
  if (take.take === "boolean") choices(box, name, required, [["yes", "true"], ["no", "false"]]);
  else if (take.take === "category") {
    const listed = take.values.map((value) => [value, value]);
    choices(box, name, required, listed);
  } else {
    for (const [axis, column] of take.columns.entries()) {
      const input = Object.assign(document.createElement("input"), { name: column, required, step: "any" });
      input.type = take.seconds ? (take.seconds === 86400 ? "date" : "datetime-local") : "number";
      const { min, max, step = "any" } = limitsOf(take, axis);
      if (take.out_of_bounds === "clip") note.textContent += `Below ${min} counts as ${min}, above ${max} as ${max}. `;
      else Object.assign(input, { min, max, step });
      if (take.columns.length > 1) input.placeholder = input.ariaLabel = column;
      else input.ariaLabel = words;
      box.append(input);
    }
  }
  const rule = note.textContent;
  box.addEventListener("input", () => (note.textContent = rule));
  box.addEventListener("invalid", (event) => {
    event.preventDefault(); // the browser's own words, which go away again
    const { validity, value, min, max, validationMessage } = event.target;
    const outside = validity.rangeUnderflow || validity.rangeOverflow;
    note.textContent = outside ? `${value} is not between ${min} and ${max}: correct it.` : validationMessage;
    document.querySelector("input:invalid").focus();
  }, true);
  box.append(note);
  return box;
}

function choices(box, name, required, listed) {
  for (const [label, value] of listed) {
    const choice = Object.assign(document.createElement("label"), { className: "choice" });
    choice.append(Object.assign(document.createElement("input"), { type: "radio", name, value, required }), label);
    box.append(choice);
  }
}

/** A record of what a form holds: null where nothing was answered. */
export function answers(form, columns) {
  const given = new FormData(form);
  const record = Object.create(null); // a column may have any name
  for (const take of Object.values(columns)) {
    for (const column of take.columns) {
      const chosen = given.get(column); // null of choices where none is made
      const text = chosen || null;
      if (take.take === "boolean") record[column] = text && text === "true";
      else if (take.take === "category") record[column] = chosen;
      else if (take.seconds) record[column] = text;
      else record[column] = text && Number(text);
    }
  }
  return record;
}
