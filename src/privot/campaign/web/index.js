// Asks the questions of a randomizer, shows the report that it draws, and sends that very report.
import { Device, Outbox } from "./privot.js";
import { answers, asker, boxes, pinned } from "./questions.js";
import { reported } from "./reported.js";

const campaign = JSON.parse(document.getElementById("campaign").textContent);
const at = (id) => document.getElementById(id);
const asked = asker(campaign.questions);
const sealed = Boolean(campaign.analystKey); // to the analyst, for a shuffler
const ALREADY = "You have taken part already.";
let [device, outbox] = [null, null];

// Before there are questions: names of columns become names of the form's inputs, and hide its own.
at("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("trouble").textContent = "";
  try {
    if (!(await outbox.report(device, answers(at("form"), device.program.columns)))) return done(ALREADY);
    await show();
  } catch (error) {
    at("trouble").textContent = error.message;
  }
});

at("title").textContent = document.title = campaign.title;
at("promise").textContent = campaign.promise;
try {
  outbox = await Outbox.open(`privot ${campaign.fingerprint}`);
  device = await pinned(Device, "randomizer.json", campaign);
  at("questions").append(...boxes(device.program.columns, asked));
  if (await outbox.settled(device)) done(ALREADY);
  else if ((await outbox.waiting()).length) await show(); // drawn at an earlier visit, and not sent
} catch (error) {
  at("ask").hidden = true;
  at("trouble").textContent = error.message;
}

at("send").addEventListener("click", async () => {
  at("send").disabled = true;
  at("trouble").textContent = "";
  const [report] = await outbox.waiting();
  const how = sealed ? { sealTo: campaign.analystKey } : {};
  const { accepted, duplicates, refused, trouble } = await outbox.send(campaign.collector, how);
  const receipt = sealed
    ? "Your report has arrived, sealed. It is opened only with many others, in random order, without who sent it."
    : `Your report has arrived, and is stored. To have it deleted one day, keep its id: ${report.toJson().id}`;
  if (accepted + duplicates) done(receipt);
  else if (refused.length) at("trouble").textContent = `The collector refused the report: ${refused[0].message}`;
  else {
    at("trouble").textContent = `Not sent yet: ${trouble ?? "the collector is out of reach"}. The same report is kept, for another try.`;
    at("send").disabled = false;
  }
});

async function show() {
  const [drawn] = await outbox.waiting();
  const report = sealed ? drawn.withoutTime() : drawn;
  const rows = reported(device.program, report.payload, campaign.labels);
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const title of ["asked", "what the report says", "how far to believe it"]) {
    head.append(Object.assign(document.createElement("th"), { textContent: title }));
  }
  for (const [names, words, sure] of rows) {
    const row = table.insertRow();
    row.insertCell().textContent = names.map(asked).join(" and ");
    row.insertCell().textContent = words;
    row.insertCell().textContent = sure ?? campaign.noise[names[0]] ?? "";
  }
  at("told").replaceChildren(table);
  const bytes = report.toBytes();
  at("size").textContent = `All ${bytes.length} bytes of it${sealed ? ", before they are sealed" : ""}`;
  if (sealed) {
    at("whom").textContent =
      "Whoever receives it sees your network address and the time, and cannot open it. Whoever opens it sees no sender, and many reports at once.";
  }
  at("bytes").textContent = JSON.stringify(report.toJson(), null, 1);
  at("questions").replaceChildren(); // the answers, which nothing needs any more
  at("ask").hidden = true;
  at("report").hidden = false;
}

function done(words) {
  at("questions").replaceChildren();
  at("ask").hidden = at("report").hidden = true;
  at("done").hidden = false;
  at("thanks").textContent = words;
}
