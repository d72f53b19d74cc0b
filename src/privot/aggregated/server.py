r"""One of the two servers: it stores shares, and sums those of a batch once, with noise that is enough.

**Release.** For a set S of ids that both servers hold, at least as many as the promise's people, the
leader publishes $\sum_{i∈S} x_i + N_1$ and the helper $−\sum_{i∈S} G(s_i) + N_2$, mod $2^{64}$, with
$N = ⌊σ Z + ½⌋$ for every entry, drawn exactly (`privot.mechanisms.gaussian`) and by each server for itself.
Together they are $\sum_{i∈S} v_i + N_1 + N_2$.

**What a server, the analyst and any clients see together**, where the other server is honest:

- *The helper's side* knows all seeds, which are independent of records, and the leader's sum. Given the
  seeds, that sum is a bijection of $\sum v_i + N_1$: one release of the Gaussian mechanism with $Δ/σ = μ$,
  hence (ε, δ)-differentially private, replace-one, whatever else the helper does (Balle, Wang 2018).
- *The leader's side* knows all $x_i$ and the helper's sum. With uniform pads in place of $G(s_i)$, the
  $x_i$ are uniform and independent of the records, and the helper's sum is $\sum v_i + N_2 − \sum x_i$:
  again one release. SHAKE128 is told from uniform pads by no feasible computation, so that this half is
  (ε, δ) for computationally bounded parties.

Noise that the dishonest server adds, or does not, is a function of what it sees: **one silent server
costs nothing of the promise**. Its lies falsify the result, and nothing detects that: a sum of other
shares, or of another set, is noise to the analyst. **Both servers together** read every record.

**Once.** Each report is opened at most once by an honest server, so batches are of different reports, and
each keeps the guarantee by itself. Shares are deleted, and the noised sum is stored, in one transaction: after
a kill there is either the old state, in which nobody saw anything, or the sum with its noise, which is
published as it is. The ledger is charged with a batch's reports before its file is written: a folder that
was restored from a copy made before is refused by the ledger's witness (`privot.privacy.ledger`). Who
reports twice, under two ids, has two budgets.

**Who may choose S?** Anybody: an adversary who leaves people out, delays them or invents others still
faces a batch of `people` or more, and noise that hides any one record given all others. **Dropped shares**
make the batch smaller, never the noise; a share that one server lacks is in no batch.

**Privacy review.** The number of reports is public. Shares are secret, to be read by their server's owner
alone. The published file holds the noised sum, the number of reports, a digest of their ids, and public
settings. How long summing takes depends on shares, which are uniform words. SQLite overwrites what is
deleted (`secure_delete`); what a disk, a snapshot or a backup retains is the operator's: a share that was
copied elsewhere is not protected by its deletion here.
"""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from privot.aggregated.shares import ROLES, Encoder, Role, Share, Words, expand, seal
from privot.core.errors import MOST_ROWS, PrivotError, require_choice
from privot.core.files import create, replacing_file, replacing_folder
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy import DistributedDP
from privot.privacy.ledger import Ledger

_TABLES = """
CREATE TABLE server (role TEXT NOT NULL);
CREATE TABLE shares (id BLOB NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE opened (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE releases (batch TEXT PRIMARY KEY, reports INTEGER NOT NULL, text TEXT NOT NULL);
"""


@dataclass(frozen=True)
class ServerPlan:
    """What a server's ledger counts: reports that were opened, each once.

    Arguments:
        encoder: Encoder of the reports.
        role: The server's role.
    """

    encoder: Encoder
    role: Role

    noun: ClassVar[str] = "reports"

    @property
    def uses(self) -> int:
        """Number of reports that may be opened: all there can be."""
        return MOST_ROWS

    @property
    def guarantee(self) -> DistributedDP:
        """Guarantee of every report, which is opened once, in a batch of the promise's people or more."""
        return self.encoder.guarantee(self.encoder.people)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"encoder": self.encoder.fingerprint, "role": self.role}


class Server:
    """The leader or the helper, in a folder that its owner alone can read.

    Arguments:
        folder: Folder that `create` made.

    Raises:
        PrivotError: if it is missing or damaged, or older than what its ledger's witness knows.

    Examples:
        >>> import tempfile
        >>> schema = Schema.from_dict({
        ...     "columns": {name: {"kind": "boolean"} for name in ("old", "sick")},
        ...     "promise": {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 100},
        ... })
        >>> encoder, folder = Encoder.calibrate(schema), Path(tempfile.mkdtemp())
        >>> servers = [Server.create(folder / role, encoder, role) for role in ("leader", "helper")]
        >>> for shares in encoder.encode_table({"old": [True, False] * 50, "sick": [False] * 100}):
        ...     _ = [server.accept(share) for server, share in zip(servers, shares)]
        >>> both = servers[0].ids() & servers[1].ids()
        >>> len(both), [server.release(both).suffix for server in servers]
        (100, ['.json', '.json'])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._database = self.folder / "shares.sqlite"
        if not self._database.is_file():
            raise PrivotError(f"{self.folder} is no server's folder: make it with Server.create")
        self.encoder = Encoder.load(self.folder / "encoder.json")
        with self._reading() as base:
            self.role: Role = base.execute("SELECT role FROM server").fetchone()[0]
        self._ledger = Ledger(
            ServerPlan(self.encoder, self.role), self.folder / "ledger.json", resume=True
        )

    @classmethod
    def create(cls, folder: str | Path, encoder: Encoder, role: Role) -> Self:
        """Make the folder of a server that has no shares yet.

        Raises:
            PrivotError: if the folder exists, or the role is unknown.
        """
        require_choice("role", role, ROLES)
        folder = Path(folder)
        if folder.exists():
            raise PrivotError(f"{folder} exists: a server's folder is never replaced; name another")
        with replacing_folder(folder, secret=True) as draft:
            encoder.save(draft / "encoder.json")
            create(draft / "shares.sqlite", secret=True)
            with closing(sqlite3.connect(draft / "shares.sqlite")) as base, base:
                base.executescript(_TABLES)
                base.execute("INSERT INTO server VALUES (?)", (role,))
        Ledger(ServerPlan(encoder, role), folder / "ledger.json").begin()
        return cls(folder)

    def accept(self, *shares: bytes) -> int:
        """Store shares, durably and all or none, and return how many are new.

        A device that gets no answer sends the same bytes again, which count once.

        Raises:
            PrivotError: for a share of another encoder, role or length, under an id that has another
                share, or whose batch was opened.
        """
        new = 0
        read = [self.encoder.read_share(share, self.role) for share in shares]
        with self._writing() as base:
            for share in read:
                new += self._insert(base, share)
        return new

    def ids(self) -> frozenset[bytes]:
        """Return the ids of the shares that are stored and not opened."""
        with self._reading() as base:
            return frozenset(found for (found,) in base.execute("SELECT id FROM shares"))

    def release(self, ids: Collection[bytes]) -> Path:
        """Sum the shares of a batch with noise, once, and return the file to publish.

        The same batch again is the same file, byte for byte.

        Arguments:
            ids: Ids that both servers hold; give both the same.

        Raises:
            PrivotError: if they are fewer than the promise's people, one is not here or was opened, or
                the ledger knows of more than this folder.
        """
        batch = frozenset(ids)
        self.encoder.guarantee(len(batch))  # refuses too few
        self.encoder.require_room(len(batch))
        name = hashlib.sha256(b"".join(sorted(batch))).hexdigest()
        with self._writing() as base:
            stored = base.execute("SELECT text FROM releases WHERE batch = ?", (name,)).fetchone()
            text = stored[0] if stored else self._sum(base, batch, name)
        with self._writing() as base:  # one at a time, and after the sum is durable
            self._count(base)
        path = self.folder / f"sum-{name[:16]}.json"
        with replacing_file(path) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
        return path

    def _insert(self, base: sqlite3.Connection, share: Share) -> bool:
        if base.execute("SELECT 1 FROM opened WHERE id = ?", (share.id,)).fetchone():
            raise PrivotError(
                f"report {share.id.hex()} was opened in a batch: it is counted already"
            )
        here = base.execute("SELECT body FROM shares WHERE id = ?", (share.id,)).fetchone()
        if here is None:
            base.execute("INSERT INTO shares VALUES (?, ?)", share)
        elif here[0] != share.body:
            raise PrivotError(
                f"report {share.id.hex()} is here with other bytes: a report is sent once, or again "
                "as it was"
            )
        return here is None

    def _sum(self, base: sqlite3.Connection, batch: frozenset[bytes], name: str) -> str:
        """Store the noised sum of a batch in place of its shares."""
        helping, length = self.role == "helper", self.encoder.length
        total: Words = np.zeros(length, np.uint64)
        for report_id in batch:
            row = base.execute("SELECT body FROM shares WHERE id = ?", (report_id,)).fetchone()
            if row is None:
                raise PrivotError(
                    f"report {report_id.hex()} is not here, or was opened: a second opening would be "
                    "another budget; give ids that both servers hold"
                )
            if helping:
                total -= expand(row[0], length)
            else:
                total += np.frombuffer(row[0], "<u8")
        total += sample_rounded_gaussian(length, self.encoder.stddev).view(np.uint64)
        text = seal(
            encoder=self.encoder.to_json(),
            role=self.role,
            reports=len(batch),
            batch=name,
            sums=base64.b64encode(total.astype("<u8").tobytes()).decode(),
        )
        base.execute("INSERT INTO releases VALUES (?, ?, ?)", (name, len(batch), text))
        rows = [(report_id,) for report_id in batch]
        base.executemany("INSERT INTO opened VALUES (?)", rows)
        base.executemany("DELETE FROM shares WHERE id = ?", rows)
        return text

    def _count(self, base: sqlite3.Connection) -> None:
        """Charge the ledger with what is stored and not yet counted, before it is published."""
        stored = base.execute("SELECT COALESCE(SUM(reports), 0) FROM releases").fetchone()[0]
        spent = self._ledger.spent
        if spent > stored:
            raise PrivotError(
                f"the ledger of {self.folder} counted {spent:,} reports, and {stored:,} are opened "
                "there: restore the newest folder; an older one would open reports twice"
            )
        if stored > spent:
            self._ledger.spend(stored - spent)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._database, timeout=60, isolation_level=None)) as base:
                base.execute("PRAGMA secure_delete = ON")
                base.execute("PRAGMA synchronous = EXTRA")
                yield base
        except sqlite3.Error as error:
            raise PrivotError(
                f"{self._database} cannot be used ({error}): see to the disk; what was acknowledged "
                "is there"
            ) from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as base:
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
            except BaseException:
                base.execute("ROLLBACK")
                raise
            base.execute("COMMIT")
