"""A campaign from its folder to reports that a real browser drew, showed, and sent."""

import http.server
import json
import stat
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from campaign.browser import CHROMIUM
from privot import Randomizer, Schema
from privot.campaign import CampaignFolder, create
from privot.collector import analyst
from privot.collector.analyst import read_analyst_key, seal_report
from privot.collector.arrivals import ShuffledCampaign
from privot.collector.collecting import collect
from privot.core.errors import PrivotError
from privot.device import Device, Report, read_batch, write_batch
from privot.randomizer.integrity import require_signature
from privot.schema.schema import Promise

TABLE = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [16, 80]
integer = true
bins = 8
[columns.travel]
kind = "categorical"
categories = ["on foot", "</script><b>car"]
[columns.home]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 2]]
""")
NUMBER = Schema.from_toml('[columns.day]\nkind = "datetime"\nbounds = ["2024-01-01", "2024-12-31"]')
AGE = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 50]\ninteger = true')
CENTS = Schema.from_toml('[columns.paid]\nkind = "numeric"\nbounds = [0.1, 6]\ndecimals = 2')
CLIPPED = Schema.from_toml(
    '[columns.age]\nkind = "numeric"\nbounds = [0, 50]\nout_of_bounds = "clip"'
)
# Names that a form or an object has, too.
NAMES = ("addEventListener", "hidden", "__proto__", "constructor")
NAMED = Schema.from_toml(
    "".join(f'[columns.{name}]\nkind = "numeric"\nbounds = [0, 9]\nbins = 3\n' for name in NAMES)
    + '[columns.told]\nkind = "categorical"\ncategories = ["", "x"]'
)
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


def made(folder, schema=TABLE, collector="http://127.0.0.1:9", epsilon=4.0, **how):
    return create(
        Randomizer.calibrate(schema, epsilon, **how),
        folder / "campaign",
        title="How do you travel?",
        collector=collector,
        questions={"age": "How old are you?"} if schema is TABLE else {},
    )


def test_a_folder_holds_what_is_public_apart_from_what_is_not(tmp_path):
    campaign = made(tmp_path)
    facts = json.loads(
        (campaign.web / "index.html").read_text().split('"campaign">')[1].split("</script>")[0]
    )
    assert facts["fingerprint"] == campaign.randomizer.fingerprint
    for folder in (campaign.folder, campaign.web):
        require_signature(folder / "randomizer.json", facts["publicKey"])
    assert stat.S_IMODE((campaign.folder / "signing.pem").stat().st_mode) == 0o600
    assert not list(campaign.web.glob("*.pem"))
    again = CampaignFolder.load(campaign.folder)
    assert (again.title, again.questions) == (campaign.title, campaign.questions)
    assert again.randomizer.fingerprint == campaign.randomizer.fingerprint


def test_what_cannot_be_a_campaign_is_refused_and_nothing_is_left(tmp_path):
    for address in (
        "",
        "localhost",
        "http://a b",
        "https://a;script-src *",
        "http://[::1]:8000",
        "http://a\n",
    ):
        with pytest.raises(PrivotError, match="collector"):
            made(tmp_path, collector=address)
        assert not list(tmp_path.iterdir())
    gaussian = Randomizer.calibrate(NUMBER, 1.0, 1e-6, mechanism="gaussian")
    words = Randomizer.calibrate(Schema.from_toml('columns.town = {kind = "word"}'), 1.0)
    given = {"title": "", "collector": ""}
    for randomizer, more, message in (
        (gaussian, {}, "browsers cannot draw"),
        (words, {}, "browsers cannot draw"),
        (Randomizer.calibrate(NUMBER, 1.0), {"questions": {"night": "?"}}, "no column"),
    ):
        with pytest.raises(PrivotError, match=message):
            create(randomizer, tmp_path / "new", **given, **more)
        assert not list(tmp_path.iterdir())
    key = (made(tmp_path).folder / "signing.pem").read_bytes()
    with pytest.raises(PrivotError, match="exists"):
        made(tmp_path)
    assert (tmp_path / "campaign" / "signing.pem").read_bytes() == key


def test_a_damaged_file_of_a_campaign_is_named(tmp_path):
    with pytest.raises(PrivotError, match="no campaign: give its folder, or make one"):
        CampaignFolder.load(tmp_path)
    folder = made(tmp_path).folder
    (folder / "randomizer.json").write_text("{}")
    with pytest.raises(PrivotError, match=r"^(?!.*no campaign).*randomizer"):
        CampaignFolder.load(folder)
    for text in ("{", "[]", '{"title": ""}'):
        (folder / "campaign.json").write_text(text)
        with pytest.raises(PrivotError, match=r"campaign\.json cannot be read \(.*copy it again"):
            CampaignFolder.load(folder)


def test_a_shuffler_is_reached_by_https_or_on_this_machine(tmp_path):
    """Who reads along has what a shuffler drops: who sends which bytes, which an analyst opens."""
    promise = Promise(1.0, "shuffled", delta=1e-4, people=50)
    randomizer = Randomizer.calibrate(TABLE.model_copy(update={"promise": promise}))
    with pytest.raises(
        PrivotError, match="a.example is not encrypted, and who reads along sees who"
    ):
        create(randomizer, tmp_path / "new", title="", collector="http://a.example")
    assert not list(tmp_path.iterdir())
    create(randomizer, tmp_path / "here", title="", collector="http://localhost:9")
    create(randomizer, tmp_path / "there", title="", collector="https://a.example")


def test_what_was_sealed_for_one_campaign_is_refused_by_another_of_its_randomizer(tmp_path):
    """An analyst with the keys of both would see who is late for the first apart from all others."""
    promise = Promise(1.0, "shuffled", delta=1e-4, people=50)
    randomizer = Randomizer.calibrate(NUMBER.model_copy(update={"promise": promise}))
    first, second = (
        create(randomizer, tmp_path / name, title="", collector="http://localhost:9")
        for name in ("first", "second")
    )
    report = Device.from_json(first.path.read_text()).report({"day": "2024-05-31"})
    sealed = seal_report(report, first.analyst_key).to_bytes()
    own, other = (ShuffledCampaign.load(each.path) for each in (first, second))
    for campaign, is_taken in ((own, True), (other, False)):
        records = campaign.read(write_batch([sealed]), as_json=False).records
        assert campaign.format.validate(records)[0].tolist() == [is_taken]
    assert other.refusal(0, sealed).reason == "fingerprint"
    assert first.randomizer == second.randomizer == randomizer


class Collector(http.server.SimpleHTTPRequestHandler):
    """Serves the pages, and takes reports of pages of any origin."""

    def __init__(self, *given, taken, **how):
        self.taken = taken
        super().__init__(*given, **how)

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        reports = list(read_batch(body))
        self.taken += reports
        answer = json.dumps({"accepted": len(reports), "duplicates": 0, "failed": []}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def served(tmp_path, **how):
    """A campaign's pages at an address, and what its collector took."""
    taken = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *_: None) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        campaign = made(tmp_path, collector=url, **how)
        server.RequestHandlerClass = partial(Collector, directory=campaign.web, taken=taken)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield campaign, url, taken
        server.shutdown()


def answer(page):
    page.wait("document.querySelector('fieldset')")
    page.run("""
        document.querySelector('input[name=age]').value = 41;
        document.querySelectorAll('input[name=travel]')[1].checked = true;
        document.querySelector('input[name=x]').value = 0.25;
        document.querySelector('input[name=y]').value = 1.5;
        document.getElementById('show').click();
    """)
    page.wait("!document.getElementById('report').hidden")


@browser
def test_a_browser_sends_the_report_that_it_showed_and_no_second_one(page, tmp_path):
    with served(tmp_path, report_columns=2) as (campaign, url, taken):
        page.open(url + "/index.html")
        answer(page)
        shown = page.run("JSON.parse(document.getElementById('bytes').textContent)")
        page.open(url + "/index.html")  # somebody comes back later: the same report waits
        page.wait("document.getElementById('bytes')?.textContent")
        assert page.run("JSON.parse(document.getElementById('bytes').textContent)") == shown
        page.run("document.getElementById('send').click()")
        page.wait("!document.getElementById('done').hidden")
        (sent,) = taken
        assert sent[33:49].hex() == shown["id"]
        release = collect(taken, campaign.randomizer).release
        assert len(release) == 1
        page.open(url + "/index.html")  # who took part learns it before a question is asked
        page.wait("document.getElementById('done')?.hidden === false")
        assert "already" in page.run("document.getElementById('thanks').textContent")
        assert page.run("document.querySelector('fieldset')") is None
        assert len(taken) == 1


@browser
def test_no_answer_leaves_by_another_way_whatever_columns_are_called(page, tmp_path):
    with served(tmp_path, schema=NAMED) as (campaign, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelectorAll('fieldset').length == 5")
        legends = page.run(
            "[...document.querySelectorAll('legend')].map((each) => each.textContent)"
        )
        assert sorted(legends) == sorted([*NAMES, "told"])
        page.run("""
            for (const input of document.querySelectorAll('input[type=number]')) input.value = 7;
            document.querySelector('input[type=radio]').checked = true;
            HTMLFormElement.prototype.submit.call(document.getElementById('form'));
        """)
        refused = page.run("""new Promise((done) => {
            const kind = 'securitypolicyviolation';
            document.addEventListener(kind, ({violatedDirective}) => done(violatedDirective));
            fetch('http://127.0.0.2:9/?answer=7').catch(() => null);
        })""")
        assert refused == "connect-src"
        page.run("document.getElementById('show').click()")
        page.wait("!document.getElementById('report').hidden")
        assert page.run("document.getElementById('form').checkVisibility()") is False
        page.run("document.getElementById('send').click()")
        page.wait("!document.getElementById('done').hidden")
        assert len(collect(taken, campaign.randomizer).release) == 1
        assert page.run("location.search") == ""


@browser
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("randomizer.json", lambda text: text.replace('"time_step":3600', '"time_step":3601')),
        ("randomizer.json", lambda text: text + "\n"),
        ("randomizer.json.sig", lambda text: ("A" if text[0] != "A" else "B") + text[1:]),
        ("randomizer.json.sig", lambda text: ""),
    ],
)
def test_a_browser_refuses_a_randomizer_that_was_changed_on_its_way(page, tmp_path, name, change):
    with served(tmp_path) as (campaign, url, taken):
        path = campaign.web / name
        path.write_text(change(path.read_text()))
        page.open(url + "/index.html")
        page.wait("document.getElementById('trouble')?.textContent")
        assert page.run("document.querySelector('fieldset')") is None
        assert not taken


@browser
def test_a_question_that_was_not_answered_is_asked_again(page, tmp_path):
    with served(tmp_path, schema=NUMBER) as (_, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelector('input[type=date]')")
        page.run("document.getElementById('show').click()")
        page.wait("document.querySelector('fieldset .trouble').textContent")
        page.run("document.querySelector('input').value = '2024-05-31'")
        page.run("document.getElementById('show').click()")
        page.wait("!document.getElementById('report').hidden")
        assert "-" in page.run("document.querySelectorAll('#told td')[1].textContent")
        assert not taken


@browser
@pytest.mark.parametrize(
    ("schema", "wrong", "right", "limits"),
    [
        (AGE, "999", "50", "0 to 50"),
        (AGE, "1e2", "5e1", "0 to 50"),
        (CENTS, "6.01", "0.11", "0.1 to 6"),
        (NUMBER, "2025-01-01", "2024-02-29", "2024-01-01 to 2024-12-31"),
    ],
)
def test_an_impossible_answer_is_refused_beside_its_question(
    page, tmp_path, schema, wrong, right, limits
):
    """By the form, and by the device of a page whose form checks nothing; nothing is drawn."""
    low, high = limits.split(" to ")
    with served(tmp_path, schema=schema) as (_, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelector('fieldset')")
        page.run(
            f"document.querySelector('input').value = '{wrong}'; document.getElementById('show').click()"
        )
        said = page.run("document.querySelector('fieldset .trouble').textContent")
        assert said == f"{wrong} is not between {low} and {high}: correct it."
        assert page.run("document.activeElement.tagName") == "INPUT"
        page.run(
            "document.getElementById('form').noValidate = true; document.getElementById('show').click()"
        )
        page.wait("document.getElementById('trouble').textContent")
        (name,) = schema.columns
        refused = f"column '{name}' is out of bounds ({limits}): correct it"
        assert page.run("document.getElementById('trouble').textContent") == refused
        assert page.run("document.getElementById('report').hidden")
        page.run("document.getElementById('form').noValidate = false")
        page.run(f"document.querySelector('input').value = '{right}'")
        event = "new Event('input', {bubbles: true})"
        page.run(f"document.querySelector('input').dispatchEvent({event})")
        assert page.run("document.querySelector('fieldset .trouble').textContent") == ""
        page.run("document.getElementById('show').click()")
        page.wait("!document.getElementById('report').hidden")
        assert not taken


@browser
def test_an_answer_that_counts_as_a_bound_says_so_before_it_is_given(page, tmp_path):
    with served(tmp_path, schema=CLIPPED) as (_, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelector('fieldset')")
        said = page.run("document.querySelector('fieldset .trouble').textContent")
        assert said == "Below 0 counts as 0, above 50 as 50. "
        page.run(
            "document.querySelector('input').value = 999; document.getElementById('show').click()"
        )
        page.wait("!document.getElementById('report').hidden")
        assert not taken


@browser
def test_dates_that_noise_carried_far_are_said_as_they_are(page, tmp_path):
    draw = {"draw": "laplace", "dimension": 1, "grid_bits": 0}
    box = {"area": "box", "lower": [-1], "upper": [1]}
    program = {
        "joint": None,
        "split": {"choose": 1, "reports": [{"column": "day", "draw": draw}]},
        "columns": {"day": {"domain": box, "seconds": 86_400}},
    }
    with served(tmp_path, schema=NUMBER) as (_, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelector('fieldset')")

        def said(days):
            payload = list(days.to_bytes(8, "big", signed=True))
            return page.run(
                f"""import('{url}/reported.js').then(({{reported}}) =>
                reported({json.dumps(program)}, Uint8Array.from({payload}), {{}})[0][1])"""
            )

        assert said(1) == "1970-01-02"
        assert said(5_000_000) == "+015659-07-15"
        assert said(2**40) == "a date after all calendars"
        assert said(-(2**40)) == "a date before all calendars"
        assert not taken


@browser
def test_a_browser_seals_what_it_showed_to_the_analyst(page, tmp_path):
    """What leaves is of one length and opens with the analyst's key alone, to the report shown."""
    promise = Promise(1.0, "shuffled", delta=1e-4, people=100)
    schema = NUMBER.model_copy(update={"promise": promise})
    with served(tmp_path, schema=schema, epsilon=None) as (campaign, url, taken):
        page.open(url + "/index.html")
        page.wait("document.querySelector('input[type=date]')")
        assert "If the shuffler is honest" in page.run(
            "document.getElementById('promise').textContent"
        )
        page.run("document.querySelector('input').value = '2024-05-31'")
        page.run("document.getElementById('show').click()")
        page.wait("!document.getElementById('report').hidden")
        assert "cannot open it" in page.run("document.getElementById('whom').textContent")
        shown = page.run("JSON.parse(document.getElementById('bytes').textContent)")
        page.run("document.getElementById('send').click()")
        page.wait("!document.getElementById('done').hidden")
        assert "sealed" in page.run("document.getElementById('thanks').textContent")
        ((sealed,),) = [taken]
        assert (
            not ShuffledCampaign.load(campaign.folder / "randomizer.json")
            .read(write_batch([sealed]), as_json=False)
            .refused
        )
        report = Report.from_bytes(sealed)
        key = read_analyst_key(campaign.folder / "analyst.key")
        (found,), _ = analyst._opened([report.payload], report.fingerprint, key)
        assert found.to_json() == shown
        assert found.time == 0
        assert found.id not in sealed
