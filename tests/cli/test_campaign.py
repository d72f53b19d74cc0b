"""The commands of a campaign."""

from commands import privot
from privot import Randomizer

SCHEMA = '[columns.day]\nkind = "datetime"\nbounds = ["2024-01-01", "2024-12-31"]\n'


def test_a_campaign_is_made_and_its_status_told(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    asked = ("--question", "day=When?", "-o", "c")
    made = privot(tmp_path, "campaign", "new", "schema.toml", "--epsilon", "2", *asked)
    assert made.returncode == 0, made.stderr
    assert "privot serve c/randomizer.json" in made.stdout
    randomizer = Randomizer.load(tmp_path / "c" / "randomizer.json")
    randomizer.privatize({"day": ["2024-05-31"] * 500}).save(tmp_path / "release.parquet")
    told = privot(tmp_path, "campaign", "status", "c", "--release", "release.parquet")
    assert told.stdout.startswith("500 reports; error to expect by now: ")
    assert (tmp_path / "c" / "web" / "status.json").exists()


def test_what_cannot_be_is_refused_in_one_line(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for arguments, words in (
        (("new", "schema.toml", "--epsilon", "2", "--question", "day"), "asks nothing"),
        (("new", "schema.toml", "--epsilon", "2", "--question", "hour=?"), "no column"),
        (("status", "nowhere"), "no campaign"),
    ):
        done = privot(tmp_path, "campaign", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_key_is_made_and_used(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    privot(tmp_path, "calibrate", "schema.toml", "--epsilon", "2", "-o", "r.json")
    first = privot(tmp_path, "sign", "r.json", "--key", "k.pem", "--create")
    signature = (tmp_path / "r.json.sig").read_text()
    again = privot(tmp_path, "sign", "r.json", "--key", "k.pem")
    assert first.stdout == again.stdout
    assert (tmp_path / "r.json.sig").read_text() == signature
    assert privot(tmp_path, "sign", "r.json", "--key", "k.pem", "--create").returncode == 2
