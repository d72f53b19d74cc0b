r"""One of the two servers: it stores shares, and releases the sum of a batch once, with noise.

**Release.** For a set S of ids that both servers hold, at least as many as the promise's people, the
leader publishes $\sum_{i∈S} x_i + N_1$ and the helper $−\sum_{i∈S} G(s_i) + N_2$, mod $2^{64}$, with
$N = ⌊σ Z + ½⌋$ in every entry, Z standard normal, which each server draws independently and exactly
(`privot.mechanisms.gaussian`). Both add up to $\sum_{i∈S} v_i + N_1 + N_2$. (`privot.aggregated.shares`
defines the shares x and s, the pad G and the contributions v.)

**What one server, the analyst and any clients see together**, if the other server is honest:

- *The helper's side* knows all seeds, which are independent of records, and the leader's sum. Given
  the seeds, that is a bijection of $\sum v_i + N_1$: one Gaussian mechanism of sensitivity Δ, (ε, δ)
  replace-one (Balle, Wang 2018), whatever the helper does.
- *The leader's side* knows all $x_i$ and the helper's sum. With uniform pads in place of $G(s_i)$, the
  $x_i$ are uniform, independent of records, and the helper's sum is $\sum v_i + N_2 − \sum x_i$: again
  one release. This half holds against adversaries who cannot distinguish SHAKE128 from uniform pads.

The other server's noise is a function of what that server sees, so **a server that adds no noise does
not weaken the promise**. It can falsify the result without being detected: a sum of other shares, or of
another set, looks like noise to the analyst. **Both servers together** can read every record.

**Once.** An honest server opens each report once, so batches are of different people, and each has the
guarantee by itself. Whoever reports under two ids spends two budgets. In one transaction, a batch's
noised sum is stored and its shares are deleted. If the process is killed, there is the state before,
from which nothing was published, or the noised sum, which is published later unchanged. Before its file
is written, its reports are counted in the ledger, whose witness (`privot.privacy.ledger`) refuses
older copies of the folder. While it has its state folder, an account creates one leader and one helper
of an encoder: a second could sum the same shares again, or prepare them with a second key, by which the
other server could read records.

**With proofs** (`privot.aggregated.prio3`) the servers share a key that no client knows, each sends a
file (`prepare`) to the other, and S has only reports that both verified: each adds what some record
adds. For a holder of one server's shares, the files of valid reports are functions of fresh random
numbers. Both servers learn which reports are valid. A dishonest server can have reports left out or
invalid ones let in, and learns nothing.

**Anybody may choose S**: if people are left out, delayed or invented, the noise still hides any one
record given all others. A share that one server lacks is in no batch: **dropped shares** make a batch
smaller, and below `people` it is not opened.

**Privacy review.** The number of reports is public. Only its owner can read the folder. The published
file has the noised sum, the number of reports, a digest of their ids, and public settings. The time of a
sum depends on shares, which are noise by themselves. Deleted shares are overwritten in the database
(`secure_delete`); the operator is responsible for copies on disks, in snapshots or in backups.
"""

import base64
import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from privot.aggregated.fields import InvalidReportError
from privot.aggregated.prio3 import NONCE_SIZE, SEED_SIZE
from privot.aggregated.shares import ROLES, Encoder, Role
from privot.collector.store import DUPLICATE, NEW
from privot.core.errors import MOST_ROWS, PrivotError, require_choice
from privot.core.files import create, holding_state, replacing_file, replacing_folder, write_json
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy import Guarantee
from privot.privacy.ledger import Chain, Ledger, Plan

_TABLES = """
CREATE TABLE server (role TEXT NOT NULL);
CREATE TABLE shares (id BLOB NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE opened (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE releases (batch TEXT PRIMARY KEY, reports INTEGER NOT NULL, text TEXT NOT NULL);
"""
_TABLES_OF_PROOFS = """
CREATE TABLE proofs (verify_key BLOB NOT NULL);
CREATE TABLE prepared (id BLOB PRIMARY KEY, seed BLOB, share BLOB, valid INTEGER) WITHOUT ROWID;
"""
_VALID = "NATURAL JOIN prepared WHERE valid"
OPENED, OTHER = 2, 3  # outcomes of a share, beside a collector's NEW and DUPLICATE
_Row = tuple[bytes, bytes, tuple[bytes, bytes] | None]  # id, body, seed and share of a verifier
REFUSED = {
    OPENED: ("opened", "was opened already: send none again"),
    OTHER: ("other", "is here with other bytes: send it once, or as it was"),
}


@dataclass(frozen=True)
class ServerPlan(Plan):
    """Plan of a server's ledger, which counts the reports that were opened, each once."""

    encoder: Encoder
    role: Role

    noun: ClassVar[str] = "reports"
    uses: ClassVar[int] = MOST_ROWS

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of every report, opened once, in a batch of the promise's people or more."""
        return self.encoder.guarantee(self.encoder.people)

    def to_dict(self) -> dict[str, Any]:
        return {"encoder": self.encoder.fingerprint, "role": self.role}


class Server:
    """The leader or the helper, whose state is in a folder that only its owner can read.

    Arguments:
        folder: Folder that `create` made.

    Raises:
        PrivotError: if it is missing or damaged, or older than its ledger or the ledger's witness.

    Examples:
        >>> import tempfile
        >>> from privot.schema import Schema
        >>> promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 100}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> encoder, folder = Encoder.calibrate(schema), Path(tempfile.mkdtemp())
        >>> servers = [Server.create(folder / role, encoder, role) for role in ("leader", "helper")]
        >>> shares = zip(*encoder.encode_table({"old": [True, False] * 50}))
        >>> [server.accept(*of_server) for server, of_server in zip(servers, shares)]
        [100, 100]
        >>> ids = servers[0].ids() & servers[1].ids()
        >>> len(ids), [server.release(ids).suffix for server in servers]
        (100, ['.json', '.json'])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._database = self.folder / "shares.sqlite"
        if not self._database.is_file():
            raise PrivotError(f"{self.folder} is no server's folder: make it with Server.create")
        self.encoder = Encoder.load(self.folder / "encoder.json")
        with self._open() as database:
            (self.role,) = database.execute("SELECT role FROM server").fetchone()
        path = self.folder / "ledger.json"
        Chain.read(path)  # a ledger that is gone is refused, and not begun again
        self._ledger = Ledger(ServerPlan(self.encoder, self.role), path, resume=True)
        _note_server(self.encoder, self.role, self._ledger.id)
        with self._open() as database:
            self._uncounted(database)  # before shares are acknowledged that could never be opened

    @classmethod
    def create(
        cls, folder: str | Path, encoder: Encoder, role: Role, verify_key: bytes | None = None
    ) -> Self:
        """Create a server without shares, and its folder.

        Arguments:
            folder: Folder to create.
            encoder: Encoder of the shares.
            role: Leader or helper.
            verify_key: With proofs: 16 random bytes (`secrets.token_bytes(16)`), the same for both
                servers, and known to nobody who makes shares.

        Raises:
            PrivotError: if the folder exists, this account has created the server before, or role or key
                are wrong.
        """
        require_choice("role", role, ROLES)
        if encoder.proofs != (verify_key is not None and len(verify_key) == SEED_SIZE):
            raise PrivotError(
                f"verify_key must be {SEED_SIZE} random bytes that both servers share if shares have "
                "proofs, and be left out if they have none"
            )
        folder = Path(folder)
        if folder.exists():
            raise PrivotError(
                f"{folder} exists, and a server's folder is not replaced: name another"
            )
        _note_server(encoder, role)
        with replacing_folder(folder, secret=True) as draft:
            encoder.save(draft / "encoder.json")
            create(draft / "shares.sqlite", secret=True)
            with closing(sqlite3.connect(draft / "shares.sqlite")) as database, database:
                database.executescript(_TABLES)
                database.execute("INSERT INTO server VALUES (?)", (role,))
                if encoder.proofs:
                    database.executescript(_TABLES_OF_PROOFS)
                    database.execute("INSERT INTO proofs VALUES (?)", (verify_key,))
            Ledger(ServerPlan(encoder, role), draft / "ledger.json").begin()
        return cls(folder)

    def accept(self, *shares: bytes) -> int:
        """Store shares durably, all or none, and return the number of new ones.

        A device that got no answer sends the same bytes again, which count once.

        Raises:
            PrivotError: for a share of another encoder, role or length, or under an id that has
                another share or was opened.
        """
        return self.store(shares, whole=True).count(NEW)

    def store(self, shares: Sequence[bytes], *, whole: bool = False) -> list[int]:
        """Store shares durably, and return the outcome of each: NEW, DUPLICATE, or a key of `REFUSED`.

        With `whole`, a refused share is an error, and nothing is stored: see `accept`.
        """
        key, rows = self.verify_key() if self.encoder.proofs else b"", []
        for share in shares:  # before the transaction, for which others wait
            report_id, body = self.encoder.read_share(share, self.role)
            rows.append((report_id, body, self._verifier(key, report_id, body)))
        with self._transaction() as database:
            outcomes = [_insert(database, row) for row in rows]
            for (report_id, _, _), outcome in zip(rows, outcomes, strict=True):
                if whole and outcome in REFUSED:
                    raise PrivotError(f"report {report_id.hex()} {REFUSED[outcome][1]}")
        return outcomes

    def _verifier(self, key: bytes, report_id: bytes, body: bytes) -> tuple[bytes, bytes] | None:
        """Return seed and share of a report's verifier; None without proofs, or for invalid shares."""
        if self.encoder.proofs:
            prio3, server = self.encoder.prio3, ROLES.index(self.role)
            public, private = body[: prio3.public_share_size], body[prio3.public_share_size :]
            with suppress(InvalidReportError):
                (_, seed), share = prio3.prep_init(key, server, report_id, public, private)
                return seed, share
        return None

    def ids(self, verified: bool = True) -> frozenset[bytes]:
        """Return the ids of stored shares that are not opened; with proofs, of `verified` ones alone."""
        with self._open() as database:
            query = f"SELECT id FROM shares {_VALID if verified and self.encoder.proofs else ''}"
            return frozenset(found for (found,) in database.execute(query))

    @property
    def num_opened(self) -> int:
        """Number of reports that were opened here."""
        with self._open() as database:
            return int(database.execute("SELECT COUNT(*) FROM opened").fetchone()[0])

    def prepare(self) -> Path:
        """Write `proofs.bin`, by which the other server verifies the reports that are stored here.

        Send it to the other server alone, over an encrypted connection: both servers' files together
        reveal more about an invalid report than that it is invalid.

        Raises:
            PrivotError: if the encoder's shares have no proofs.
        """
        self.verify_key()
        path = self.folder / "proofs.bin"
        with (
            self._open() as database,
            replacing_file(path, secret=True) as draft,
            draft.open("wb") as file,
        ):
            file.write(self.encoder.head(self.role))
            query = "SELECT id, share FROM prepared NATURAL JOIN shares ORDER BY id"
            file.writelines(report_id + share for report_id, share in database.execute(query))
        return path

    def verify(self, proofs: Path) -> int:
        """Verify reports by the other server's `proofs.bin`, and return the number of all valid ones.

        Only valid reports are in `ids` afterwards, and can be released. Others stay stored, unopened.

        Raises:
            PrivotError: if the file is not whole, is of another encoder, or is this server's own.
        """
        self.verify_key()
        prio3, other = self.encoder.prio3, ROLES[self.role == "leader"]
        head, size = self.encoder.head(other), NONCE_SIZE + prio3.prep_share_size
        with self._transaction() as database, proofs.open("rb") as file:
            if file.read(len(head)) != head or (proofs.stat().st_size - len(head)) % size:
                raise PrivotError(f"{proofs} does not hold proofs of the {other}: copy it again")
            for row in iter(lambda: file.read(size), b""):
                report_id, received = row[:NONCE_SIZE], row[NONCE_SIZE:]
                query = "SELECT seed, share FROM prepared WHERE id = ?"
                if prepared := database.execute(query, (report_id,)).fetchone():
                    seed, stored = prepared
                    shares = (received, stored) if other == "leader" else (stored, received)
                    with suppress(InvalidReportError):
                        prio3.check_seed(seed, prio3.prep_shares_to_prep(shares))
                        database.execute("UPDATE prepared SET valid = 1 WHERE id = ?", (report_id,))
            (count,) = database.execute(f"SELECT COUNT(*) FROM shares {_VALID}").fetchone()
        return int(count)

    def verify_key(self) -> bytes:
        """Return the key by which reports are verified; raise PrivotError if shares have no proofs."""
        if not self.encoder.proofs:
            raise PrivotError("the encoder's shares have no proofs: calibrate one with proofs")
        with self._open() as database:
            return bytes(database.execute("SELECT verify_key FROM proofs").fetchone()[0])

    def release(self, ids: Collection[bytes]) -> Path:
        """Sum the shares of a batch with noise, once, and return the path of the file to publish.

        If the same batch is released again, the file has the same bytes.

        Arguments:
            ids: Ids of reports that both servers hold; both servers must release the same ids.

        Raises:
            PrivotError: if there are fewer ids than the promise's people, a share is missing or was
                opened before, or the ledger has counted more reports than this folder has opened.
        """
        batch = frozenset(ids)
        self.encoder.guarantee(len(batch))  # raises if there are too few
        self.encoder.require_room(len(batch))
        name = batch_name(batch)
        with self._transaction() as database:
            self._uncounted(database)  # raises if the database is older than the ledger
            query = "SELECT text FROM releases WHERE batch = ?"
            stored = database.execute(query, (name,)).fetchone()
            text = stored[0] if stored else self._replace_by_sum(database, batch, name)
        with self._transaction() as database:  # one process at a time, after the sum is durable
            if uncounted := self._uncounted(database):
                self._ledger.spend(uncounted)
        path = self.folder / f"sum-{name[:16]}.json"
        with replacing_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
        return path

    def _replace_by_sum(
        self, database: sqlite3.Connection, batch: frozenset[bytes], name: str
    ) -> str:
        """Store the noised sum of a batch in place of its shares."""
        noise = sample_rounded_gaussian(self.encoder.length, self.encoder.stddev)
        bodies = (self._releasable(database, report_id) for report_id in batch)
        total = self.encoder.total(bodies, self.role, noise)
        fields = {"encoder": self.encoder.to_json(), "role": self.role, "reports": len(batch)}
        text = sealed(fields | {"batch": name, "sums": base64.b64encode(total).decode()})
        database.execute("INSERT INTO releases VALUES (?, ?, ?)", (name, len(batch), text))
        rows = [(report_id,) for report_id in batch]
        if self.encoder.proofs:
            database.executemany("DELETE FROM prepared WHERE id = ?", rows)
        database.executemany("INSERT INTO opened VALUES (?)", rows)
        database.executemany("DELETE FROM shares WHERE id = ?", rows)
        return text

    def _releasable(self, database: sqlite3.Connection, report_id: bytes) -> bytes:
        """Return the share of a report that may be opened; raise PrivotError if there is none."""
        body = _body(database, report_id)
        if body is None:
            raise PrivotError(
                f"report {report_id.hex()} is not here, or was opened, which is done once: give ids "
                "that both servers hold"
            )
        query = "SELECT 1 FROM prepared WHERE valid AND id = ?"
        if self.encoder.proofs and not database.execute(query, (report_id,)).fetchone():
            raise PrivotError(
                f"report {report_id.hex()} is not verified: verify by the other server's proofs, and "
                "give ids that both servers list then"
            )
        return body

    def _uncounted(self, database: sqlite3.Connection) -> int:
        """Return the number of opened reports that the ledger has not counted yet."""
        spent = self._ledger.spent  # read first, as reports are opened before they are counted
        (opened,) = database.execute("SELECT COALESCE(SUM(reports), 0) FROM releases").fetchone()
        if spent > opened:
            raise PrivotError(
                f"the ledger of {self.folder} counted {spent:,} reports, and {opened:,} are opened "
                "there: restore the newest folder; an older one would open reports twice"
            )
        return int(opened - spent)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._database, 60.0, isolation_level=None)) as database:
                database.execute("PRAGMA secure_delete = ON")
                database.execute("PRAGMA synchronous = EXTRA")
                yield database
        except sqlite3.Error as error:
            raise PrivotError(
                f"{self._database} cannot be used ({error}): repair the disk; nothing that was "
                "acknowledged is lost"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            yield database  # an error closes the connection, which rolls back
            database.execute("COMMIT")


def _insert(database: sqlite3.Connection, row: _Row) -> int:
    """Store one share if its id is new, and return its outcome."""
    report_id, body, verifier = row
    if database.execute("SELECT 1 FROM opened WHERE id = ?", (report_id,)).fetchone():
        return OPENED
    if (stored := _body(database, report_id)) is not None:
        return DUPLICATE if stored == body else OTHER
    database.execute("INSERT INTO shares VALUES (?, ?)", (report_id, body))
    if verifier:
        database.execute("INSERT INTO prepared VALUES (?, ?, ?, 0)", (report_id, *verifier))
    return NEW


def _note_server(encoder: Encoder, role: Role, ledger: str | None = None) -> None:
    """Note the ledger of an encoder's server in the state folder; raise if it had one with another."""
    with holding_state() as state:
        name = f"{encoder.fingerprint}-{role}"
        own = state / "ledgers" / f"{name}-{ledger}.json"
        found = [*own.parent.glob(f"{name}*")]
        if found and found != [own]:
            raise PrivotError(
                f"this account has had a {role} of this encoder, and another could open its reports "
                "twice: use that one's folder, or calibrate again for a new campaign"
            )
        if ledger is not None and not found:
            write_json(own, {})


def _body(database: sqlite3.Connection, report_id: bytes) -> bytes | None:
    row = database.execute("SELECT body FROM shares WHERE id = ?", (report_id,)).fetchone()
    return None if row is None else row[0]


def batch_name(ids: Collection[bytes]) -> str:
    """Return the name of a batch, the digest of its ids."""
    return hashlib.sha256(b"".join(sorted(ids))).hexdigest()


def sealed(fields: dict[str, Any]) -> str:
    """Return a line of JSON and a line of its SHA-256."""
    text = json.dumps(fields, separators=(",", ":"))
    return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n"


def unsealed(text: str) -> dict[str, Any]:
    """Return the fields of a `sealed` text; raise ValueError if it was damaged."""
    fields: dict[str, Any] = json.loads(text.partition("\n")[0])
    if sealed(fields) != text:
        raise ValueError("it was damaged or altered")
    return fields
