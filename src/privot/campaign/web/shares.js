// Asks the questions of an encoder, shows the two shares of the answers, and sends each to its server.
import { Encoder, ShareOutbox } from "./privot.js";
import { answers, asker, boxes, pinned } from "./questions.js";

const campaign = JSON.parse(document.getElementById("campaign").textContent);
const at = (id) => document.getElementById(id);
const servers = { leader: campaign.leader, helper: campaign.helper };
const HEAD = 49; // bytes of the fingerprint, the server's number and the id
const ALREADY = "This browser has sent its shares already, and makes no others.";
let [encoder, outbox, shares] = [null, null, null]; // shares: what is shown; stored from the first try to send them on

// Before there are questions: names of columns become names of the form's inputs, and hide its own.
at("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("trouble").textContent = "";
  try {
    const made = encoder.encode(answers(at("form"), encoder.program.columns));
    if (await outbox.settled(encoder)) done(ALREADY);
    else show((await outbox.waiting())[0] ?? made);
  } catch (error) {
    at("trouble").textContent = error.message;
  }
});

at("title").textContent = document.title = campaign.title;
at("promise").textContent = campaign.promise;
try {
  outbox = await ShareOutbox.open(`privot ${campaign.fingerprint}`);
  encoder = await pinned(Encoder, "encoder.json", campaign);
  at("lies").textContent = encoder.proofs
    ? "invent answers, as often as they like, each time one person's: the servers sum no shares without a proof of that"
    : "falsify the counts, and still read no answer of yours";
  at("questions").append(...boxes(encoder.program.columns, asker(campaign.questions)));
  const [waiting] = await outbox.waiting();
  if (await outbox.settled(encoder)) done(ALREADY);
  else if (waiting) show(waiting); // of an earlier visit, and not sent to both
} catch (error) {
  at("ask").hidden = true;
  at("trouble").textContent = error.message;
}

at("send").addEventListener("click", async () => {
  at("send").disabled = true;
  at("trouble").textContent = "";
  try {
    const kept = await outbox.keep(encoder, shares);
    if (!kept) return done(ALREADY);
    if (String(kept.helper) === String(shares.helper)) return await send();
    show(kept);
    at("trouble").textContent = "Nothing is sent yet: another page of this browser made these shares before yours.";
  } catch (error) {
    at("trouble").textContent = error.message;
  }
  at("send").disabled = false;
});

async function send() {
  const { delivered, refused, trouble } = await outbox.send(servers);
  if (delivered) {
    const people = campaign.people.toLocaleString("en");
    done(`Both servers have their share. They add up ${people} reports or more, and publish the sums with noise.`);
  } else if (refused.length) {
    const [{ server, message }] = refused;
    at("trouble").textContent =
      `The ${server} refused its share for good: ${message}. Your answers are not counted. ` +
      "No server can read them alone. Please tell whoever runs this survey.";
  } else {
    at("trouble").textContent = `Not sent to both yet: ${trouble ?? "another page is sending them"}.`;
    at("send").disabled = false;
  }
}

/**
 * No byte of a share is shown, for a picture of the page, beside the other server's share, would say what was answered;
 * and no id, by which anybody could ask a server for it, or send another share under it first.
 */
function show(found) {
  shares = found;
  at("questions").replaceChildren(); // the answers, which nothing needs any more
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const title of ["to", "what"]) {
    head.append(Object.assign(document.createElement("th"), { textContent: title }));
  }
  for (const [role, address] of Object.entries(servers)) {
    const body = shares[role].subarray(HEAD);
    const row = table.insertRow();
    row.insertCell().textContent = `the ${role}, ${new URL(address).host}`;
    row.insertCell().textContent = `${body.length.toLocaleString("en")} random bytes${encoder.proofs ? ", with a proof" : ""}`;
  }
  at("told").replaceChildren(table);
  at("ask").hidden = true;
  at("report").hidden = false;
}

function done(words) {
  at("questions").replaceChildren();
  at("ask").hidden = at("report").hidden = true;
  at("done").hidden = false;
  at("thanks").textContent = words;
}
