"""A campaign of two servers: answers in a real browser become shares, sums, and a model."""

import http.client
import http.server
import json
import runpy
import shlex
import signal
import stat
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from campaign.browser import CHROMIUM
from commands import privot
from forked_commands import start
from privot.aggregated import Encoder, Server
from privot.aggregated.shares import ROLES
from privot.campaign import CampaignFolder, create, write_share_status
from privot.core.errors import PrivotError
from privot.models import load
from privot.randomizer.integrity import require_signature
from privot.schema import Schema

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

PEOPLE = 300
COLUMNS = """
[columns.age]
kind = "numeric"
bounds = [16, 80]
integer = true
bins = 4
[columns.travel]
kind = "categorical"
categories = ["on foot", "</script><b>car"]
"""
PROMISE = f'[promise]\nepsilon = 8\nwhere = "aggregated"\ndelta = 1e-6\npeople = {PEOPLE}\n'
PLACE = '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nbounds = [[0, 1], [0, 1]]\n'
IMAGE = '[columns.image]\nkind = "array"\nshape = [8, 8]\nbounds = [0, 255]\n'
SERVERS = {"leader": "http://127.0.0.1:9", "helper": "http://127.0.0.2:9/at"}
TITLE = {"title": "How do you travel?"}
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


def made(folder, columns=COLUMNS, addresses=SERVERS):
    encoder = Encoder.calibrate(Schema.from_toml(columns + PROMISE))
    return create(encoder, folder / "campaign", **TITLE, **addresses)


def two(leader, helper):
    return {"leader": leader, "helper": helper}


def test_a_folder_holds_what_is_public_apart_from_what_is_not(tmp_path):
    campaign = made(tmp_path)
    page = (campaign.web / "index.html").read_text()
    facts = json.loads(page.split('"campaign">')[1].split("</script>")[0])
    assert facts["fingerprint"] == campaign.rule.fingerprint
    assert {name: facts[name] for name in SERVERS} == SERVERS == campaign.addresses
    assert "connect-src 'self' http://127.0.0.1:9 http://127.0.0.2:9;" in page
    assert facts["promise"] == campaign.rule.guarantee(PEOPLE).describe()
    dashboard = (campaign.web / "dashboard.html").read_text()  # it can read what the page stores
    assert "default-src 'none'" in dashboard
    assert "connect-src 'self';" in dashboard
    for folder in (campaign.folder, campaign.web):
        require_signature(folder / "encoder.json", facts["publicKey"])
    assert stat.S_IMODE((campaign.folder / "signing.pem").stat().st_mode) == 0o600
    assert not [*campaign.web.glob("*.pem"), *campaign.folder.glob("analyst.key")]
    again = CampaignFolder.load(campaign.folder)
    assert again.rule == campaign.rule
    with pytest.raises(PrivotError, match="two servers, which have shares and no reports"):
        _ = again.randomizer


def test_what_cannot_be_a_campaign_of_shares_is_refused_and_nothing_is_left(tmp_path):
    table = Schema.from_toml(COLUMNS + PROMISE)
    plain = Encoder.calibrate(table)
    images = Encoder.calibrate(Schema.from_toml(IMAGE + PROMISE.replace("300", "100_000")))
    for encoder, addresses, words in (
        (images, SERVERS, "leave images out, or encode them with `privot privatize`"),
        (
            plain,
            {"collector": "http://127.0.0.1:9"},
            "sends to leader and helper, and addresses are given for collector",
        ),
        (plain, {}, "addresses are given for none: give one for each"),
        (plain, SERVERS | {"helper": "nowhere"}, "helper is 'nowhere': give its address"),
        (
            plain,
            SERVERS | {"helper": "http://127.0.0.1:9/b"},
            "who has both shares reads the record",
        ),
        (plain, SERVERS | {"helper": "https://a;script-src *"}, "helper is"),
        (plain, SERVERS | {"helper": "https://a.example:65536"}, "helper is"),
        (plain, SERVERS | {"helper": "http://a.example"}, "example is not encrypted"),
        (plain, SERVERS | {"helper": "http://127.evil.example"}, "is not encrypted"),
        (plain, two("https://a.example", "https://a.example:443"), "are both at"),
        (plain, two("https://a.example", "HTTPS://A.example.:8443/b"), "are both at"),
        (plain, two("http://localhost:9", "http://127.0.0.1:9"), "are both at"),
        (plain, two("http://localhost", "http://127.0.0.1:80"), "are both at"),
    ):
        with pytest.raises(PrivotError, match=words) as refusal:
            create(encoder, tmp_path / "new", **TITLE, **addresses)
        assert "\n" not in str(refusal.value)
        assert not list(tmp_path.iterdir())


def test_the_numbers_are_of_reports_that_both_servers_hold(tmp_path):
    campaign = made(tmp_path)
    with pytest.raises(PrivotError, match="each counts its own shares"):
        write_share_status(campaign)
    both = [Server.create(campaign.folder / role, campaign.rule, role) for role in ROLES]
    shares = [*campaign.rule.encode_table({"age": [20] * 320, "travel": ["on foot"] * 320})]
    both[0].accept(*(leader for leader, _ in shares))
    both[1].accept(*(helper for _, helper in shares[:299]))
    (line,) = write_share_status(campaign)
    assert line.startswith("299 reports are held by both servers, 0 were opened; a batch is 300")
    status = json.loads((campaign.web / "status.json").read_text())
    assert (status["reports"], status["needed"], status["opened"]) == (299, 300, 0)
    assert "if one of the two servers is honest" in status["guarantee"]
    both[1].accept(shares[300][1])
    assert len(write_share_status(campaign)) == 6
    held = both[0].ids() & both[1].ids()
    for server in both:
        server.release(held)
    (line,) = write_share_status(campaign)
    assert line.startswith("0 reports are held by both servers, 300 were opened")
    others = [*campaign.rule.encode_table({"age": [20] * 300, "travel": ["on foot"] * 300})]
    for server, own in zip(both, zip(*others, strict=True), strict=True):
        server.accept(*own)
    last = write_share_status(campaign)[-1]
    assert last.endswith(
        "fit campaign-after-300-leader.json campaign-after-300-helper.json -o "
        "campaign-after-300-model"
    )


def test_commands_of_reports_are_refused_in_one_line(tmp_path):
    made(tmp_path)
    (tmp_path / "schema.toml").write_text(COLUMNS + PROMISE)
    (tmp_path / "plain.toml").write_text(COLUMNS)
    for line, words in (
        ("delete campaign --all", "which have shares and no reports"),
        ("status campaign", "each counts its own shares by `privot aggregate`"),
        ("up campaign", "the page of campaign sends to http://127.0.0.2:9/at"),
        ("new schema.toml -o new --collector http://127.0.0.1:1", "sends to leader and helper"),
        ("new schema.toml -o new --report-columns 1", "shares have all columns, leave it out"),
        ("new plain.toml --epsilon 1 -o new --proofs", "--proofs is for sums by two servers"),
        (
            "new schema.toml -o new --helper http://localhost:8000 --leader http://localhost:8000",
            "both",
        ),
    ):
        done = privot(tmp_path, "campaign", *line.split())
        assert done.returncode == 2, line
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("proofs", [False, True])
def test_next_commands_name_the_machine_of_each_server(tmp_path, proofs):
    (tmp_path / "schema.toml").write_text(COLUMNS)
    promised = "--epsilon 8 --where aggregated --delta 1e-6 --people 300" + " --proofs" * proofs
    away = "--leader https://a.example --helper https://b.example"
    done = privot(tmp_path, "campaign", "new", "schema.toml", *promised.split(), *away.split())
    assert done.returncode == 0, done.stderr
    assert "ε = 8, δ = 1e-06, aggregated, at least 300 people, fingerprint" in done.stdout
    commands = [
        x.removeprefix("next: ") for x in done.stdout.splitlines() if x.startswith("next: ")
    ]
    assert len(commands) == 2
    for role, command in zip(ROLES, commands, strict=True):
        assert f"on the {role}'s machine" in done.stdout
        process = start(tmp_path, *shlex.split(command)[1:], "--port", "0")
        try:
            address = process.stdout.readline().decode().strip()
            assert post(address, b"")[1]["error"]["reason"] == "length"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.stdout.close()


def post(address, body):
    """The status and the answer of a server to shares."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request("POST", "/shares", body, {"content-type": "application/octet-stream"})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


class Stub(http.server.SimpleHTTPRequestHandler):
    """A server that answers each share in turn as it is told, and then stores it; it may have pages."""

    def __init__(self, *given, taken, answers, **how):
        self.taken, self.answers = taken, answers
        super().__init__(*given, **how)

    def log_message(self, *_):
        pass

    def end_headers(self):
        self.send_header("access-control-allow-origin", self.headers.get("origin", "*"))
        self.send_header("access-control-allow-headers", "content-type")
        super().end_headers()

    def do_OPTIONS(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        self.taken.append(self.rfile.read(int(self.headers["content-length"])))
        stored = (200, {"accepted": 1, "duplicates": 0, "failed": []})
        status, fields = self.answers.pop(0) if self.answers else stored
        answer = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def served(tmp_path, columns=COLUMNS, **answers):
    """A campaign's pages at an address, and what its two servers took; they answer first as is given."""
    taken = {role: [] for role in ROLES}
    handler = (("127.0.0.1", 0), lambda *_: None)
    with (
        http.server.ThreadingHTTPServer(*handler) as leader,
        http.server.ThreadingHTTPServer(*handler) as helper,
    ):
        running = dict(zip(ROLES, (leader, helper), strict=True))
        urls = {role: f"http://127.0.0.1:{each.server_port}" for role, each in running.items()}
        campaign = made(tmp_path, columns, urls)
        for role, each in running.items():
            told = {"taken": taken[role], "answers": answers.get(role, [])}
            each.RequestHandlerClass = partial(Stub, directory=campaign.web, **told)
            threading.Thread(target=each.serve_forever, daemon=True).start()
        yield campaign, urls["leader"], taken
        for each in running.values():
            each.shutdown()


def answer(page):
    page.wait("document.querySelector('fieldset')")
    page.run("""
        document.querySelector('input[name=age]').value = 41;
        document.querySelectorAll('input[name=travel]')[1].checked = true;
        document.getElementById('show').click();
    """)
    page.wait("!document.getElementById('report').hidden")


def shown(page):
    """All text of the page, without blanks."""
    return "".join(page.run("document.body.innerText").split())


def send(page, until):
    page.run("document.getElementById('send').click()")
    page.wait(until)


TROUBLE = "document.getElementById('trouble')?.textContent"
DONE = "!document.getElementById('done').hidden"


@browser
def test_a_browser_sends_its_shares_once_and_shows_neither_their_bytes_nor_their_id(page, tmp_path):
    busy = (404, {"error": {"reason": "path", "message": "nothing here yet"}})
    with served(tmp_path, helper=[busy]) as (campaign, url, taken):
        page.open(url + "/index.html")
        answer(page)
        assert "If one of the two servers is honest" in page.run(
            "document.getElementById('promise').textContent"
        )
        text = shown(page)
        send(page, TROUBLE)
        said = page.run(TROUBLE)
        assert said.startswith("Not sent to both yet: the helper answers 404 (nothing here yet)")
        page.open(url + "/index.html")  # somebody comes back later: the same shares wait
        page.wait("document.querySelectorAll('#told table').length == 1")
        assert shown(page) == text
        send(page, DONE)
        assert "300 reports or more" in page.run("document.getElementById('thanks').textContent")
        page.open(url + "/index.html")
        page.wait("document.getElementById('done')?.hidden === false")
        assert "already" in page.run("document.getElementById('thanks').textContent")
        assert [len(set(taken[role])) for role in ROLES] == [1, 1]
        for role in ROLES:
            own = b"".join(campaign.rule.read_share(taken[role][0], role))  # the id, and the share
            assert not [at for at in range(len(own) - 7) if own[at : at + 8].hex() in text]
        own = np.frombuffer(taken["leader"][0][49:], "<u8")
        (vector,) = campaign.rule.contributions({"age": [41], "travel": ["</script><b>car"]})
        assert not (own == vector[0]).any(), "a share without its pad"


STORED = """(async () => {
    const [{name}] = await indexedDB.databases();
    const of = (request) => new Promise((done) => { request.onsuccess = () => done(request.result); });
    const database = await of(indexedDB.open(name));
    return (await of(database.transaction('reports').objectStore('reports').getAll())).length;
})()"""


@browser
def test_nothing_is_stored_of_answers_until_they_are_sent(page, tmp_path):
    with served(tmp_path) as (_, url, taken):
        page.open(url + "/index.html")
        answer(page)
        assert page.run(STORED) == 0
        assert page.run("document.querySelector('input')") is None
        page.open(url + "/index.html")  # who comes back is asked again
        answer(page)
        assert taken == {"leader": [], "helper": []}
        send(page, DONE)
        assert page.run(STORED) == 1


@browser
def test_two_open_pages_send_one_pair_of_shares(page, tmp_path):
    busy = (404, {"error": {"reason": "path", "message": "nothing here yet"}})
    with served(tmp_path, leader=[busy]) as (_, url, taken):
        page.open(url + "/index.html")
        answer(page)
        # Another page stores its shares meanwhile.
        page.run("""(async () => {
            const { Encoder, ShareOutbox } = await import('./privot.js');
            const encoder = await Encoder.load(await (await fetch('encoder.json')).text());
            window.other = await ShareOutbox.open(`privot ${encoder.fingerprint}`);
            const { helper } = await window.other.shares(encoder, { age: 20, travel: 'on foot' });
            window.stored = Array.from(helper);
        })()""")
        send(page, TROUBLE)
        assert page.run(TROUBLE).startswith("Nothing is sent yet: another page of this browser")
        assert taken == {"leader": [], "helper": []}
        send(page, "document.getElementById('trouble').textContent.startsWith('Not sent to both')")
        send(page, DONE)
        assert [len(set(taken[role])) for role in ROLES] == [1, 1]
        assert [*taken["helper"][0]] == page.run("window.stored")


@browser
def test_a_share_that_is_refused_for_good_is_said_in_plain_words(page, tmp_path):
    failed = [{"index": 0, "reason": "other", "message": "its report is here with other bytes"}]
    refusal = (409, {"accepted": 0, "duplicates": 0, "failed": failed})
    with served(tmp_path, leader=[refusal]) as (_, url, taken):
        page.open(url + "/index.html")
        answer(page)
        send(page, TROUBLE)
        said = page.run(TROUBLE)
        assert said.startswith(
            "The leader refused its share for good: its report is here with other"
        )
        assert "Your answers are not counted. No server can read them alone." in said
        assert page.run("document.getElementById('send').disabled")
        assert len(taken["leader"]) == 1


@browser
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("encoder.json", lambda text: text.replace('"weight":64', '"weight":63', 1)),
        ("encoder.json", lambda text: text + "\n"),
        ("encoder.json.sig", lambda text: ("A" if text[0] != "A" else "B") + text[1:]),
        ("encoder.json.sig", lambda text: ""),
    ],
)
def test_a_browser_refuses_an_encoder_that_was_changed_on_its_way(page, tmp_path, name, change):
    with served(tmp_path) as (campaign, url, taken):
        path = campaign.web / name
        text = path.read_text()
        assert change(text) != text
        path.write_text(change(text))
        page.open(url + "/index.html")
        page.wait(TROUBLE)
        assert page.run("document.querySelector('fieldset')") is None
        assert taken == {"leader": [], "helper": []}


@browser
def test_a_place_is_asked_by_its_coordinates_and_nothing_leaves_by_another_way(page, tmp_path):
    with served(tmp_path, PLACE) as (campaign, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelector('fieldset')")
        refused = page.run("""new Promise((done) => {
            const kind = 'securitypolicyviolation';
            document.addEventListener(kind, ({violatedDirective}) => done(violatedDirective));
            fetch('http://127.0.0.2:9/?answer=7').catch(() => null);
        })""")
        assert refused == "connect-src"
        page.run("document.querySelector('input[name=x]').value = 0.25")
        page.run("document.getElementById('show').click()")
        page.wait("document.querySelector('fieldset .trouble').textContent")
        assert page.run("document.activeElement.name") == "y"
        page.run("document.querySelector('input[name=y]').value = 0.75")
        page.run("document.getElementById('show').click()")
        page.wait("!document.getElementById('report').hidden")
        send(page, DONE)
        encoder = campaign.rule
        (leader,), (helper,) = taken["leader"], taken["helper"]
        none = np.zeros(encoder.length, np.int64)
        sums = [
            encoder.total([encoder.read_share(share, role)[1]], role, none.copy())
            for role, share in zip(ROLES, (leader, helper), strict=True)
        ]
        (vector,) = encoder.contributions({"x": [0.25], "y": [0.75]})
        assert (encoder.opened(*sums) == vector[0].view(np.int64)).all()
        assert page.run("location.search") == ""


@contextmanager
def up(folder, *arguments):
    """`privot campaign up` in a process of its own; its addresses by name, and its further lines."""
    process = start(folder, "campaign", "up", *arguments)
    try:
        *lines, _ = lines_until(process, "Ctrl-C")
        yield process, dict(line.split() for line in lines)
    finally:
        process.kill()
        process.stdout.close()


def lines_until(process, beginning):
    """Lines that a process prints, up to one that begins so."""
    lines = []
    while not lines or not lines[-1].startswith(beginning):
        line = process.stdout.readline().decode()
        assert line, process.said()
        lines.append(line.strip())
    return lines


def hundredfold(rule):
    """Shares of a hundred times a record, with the proof that an honest device would make of them."""
    (vector,) = next(rule.contributions({"age": [20], "travel": ["on foot"]}))
    nonce, measurement = bytes(16), 100 * rule.prio3.circuit.measurement_of(vector.view(np.int64))
    public, bodies = rule.prio3.shard(measurement, nonce)
    return [rule.head(role) + nonce + public + body for role, body in zip(ROLES, bodies)]


def test_imaginary_people_take_part(tmp_path, monkeypatch):
    example = Path(__file__).parents[2] / "examples" / "web"
    columns = (example / "commute.toml").read_text()
    made(tmp_path, columns, {"leader": "http://127.0.0.1:8000", "helper": "http://127.0.0.1:8002"})
    ports = ("--port", "0", "--helper-port", "0", "--page-port", "0", "--every", "0.2")
    with up(tmp_path, "campaign", *ports) as (process, addresses):
        servers = [part for role in ROLES for part in (f"--{role}", addresses[role])]
        command = ["people.py", str(tmp_path / "campaign"), "--people", "250", *servers]
        monkeypatch.setattr("sys.argv", command)
        runpy.run_path(str(example / "people.py"), run_name="__main__")
        lines_until(process, "250 reports are held by both servers, 0 were opened")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@browser
@pytest.mark.timeout(600)
@pytest.mark.parametrize("proofs", [False, True])
def test_answers_become_a_model_by_the_commands_that_are_printed(chromium, tmp_path, proofs):
    """With proofs, somebody lies, too: both servers hold the shares, and nothing is learned of them."""
    (tmp_path / "schema.toml").write_text(COLUMNS + PROMISE)
    how = ["--proofs"] * proofs
    new = privot(tmp_path, "campaign", "new", "schema.toml", "-o", "my campaign", *how)
    assert new.returncode == 0, new.stderr
    assert new.stdout.splitlines()[-1] == "next: privot campaign up 'my campaign'"
    ports = ("--port", "0", "--helper-port", "0", "--page-port", "0", "--every", "0.2")
    campaign = CampaignFolder.load(tmp_path / "my campaign")
    with up(tmp_path, "my campaign", *ports) as (process, addresses):
        lines_until(process, "0 reports are held by both servers")
        for _ in range(2):
            with chromium.new_profile() as page:
                page.open(addresses["page"])
                answer(page)
                send(page, DONE)
        lines_until(process, "2 reports are held by both servers")
        rng = np.random.default_rng(0)
        car = rng.random(PEOPLE) < 0.8
        people = {
            "age": np.where(car, rng.integers(50, 80, PEOPLE), rng.integers(16, 30, PEOPLE)),
            "travel": np.where(car, "</script><b>car", "on foot"),
        }
        shares = [*campaign.rule.encode_table(people), *[hundredfold(campaign.rule)] * proofs]
        for role, own in zip(ROLES, zip(*shares, strict=True), strict=True):
            status, told = post(addresses[role], b"".join(own))
            assert (status, told["accepted"]) == (200, PEOPLE + proofs)
        printed = lines_until(process, "next: privot fit")
        held, *commands = printed[-8 if proofs else -6 :]
        assert f"{PEOPLE + 2 + proofs} reports are held by both servers, 0 were opened" in held
        for command in commands:
            done = privot(tmp_path, *shlex.split(command.removeprefix("next: privot ")))
            assert done.returncode == 0, (command, done.stderr)
        assert "learned from the sums of 302 reports, ε = 8, δ = 1e-06 if one of the" in done.stdout
        lines_until(process, f"{proofs:d} reports are held by both servers, 302 were opened")
        status = ("status", "my campaign", "--release", "my campaign-model")
        assert "302 were opened" in privot(tmp_path, "campaign", *status).stdout
        with chromium.new_profile() as page:
            page.open(addresses["dashboard"])
            page.wait("document.querySelectorAll('svg').length === 2")
            shown = page.run("document.getElementById('numbers').innerText")
            assert "302\nwere opened" in shown
        (again,) = campaign.rule.encode_table({"age": [20], "travel": ["on foot"]})
        assert [post(addresses[role], own)[0] for role, own in zip(ROLES, again)] == [200, 200]
        lines_until(process, f"{1 + proofs} reports are held by both servers, 302 were opened")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "whoever runs both reads every record" in process.said()
        assert "everything that was acknowledged is stored" in process.said()
    status = campaign.web / "status.json"
    age, travel = json.loads(status.read_text())["columns"]
    status.unlink()  # or written by a program that counted while the model was read
    write_share_status(campaign)
    assert json.loads(status.read_text())["columns"] == [age, travel]
    # Noise moves a share by 0.02 (standard deviation): 0.12 is six of them, a false alarm below 10⁻⁸.
    assert travel["shares"] == pytest.approx([1 - car.mean(), car.mean()], abs=0.12)
    assert sum(age["shares"]) == pytest.approx(1, abs=0.01)
    assert load(tmp_path / "my campaign-model").batches == (PEOPLE + 2,)
