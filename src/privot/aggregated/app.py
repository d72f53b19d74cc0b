"""HTTP interface of one of the two servers, which accepts and stores shares.

`POST /shares` takes `application/octet-stream`: one share, or several concatenated shares, of the length
that shares for this server have. `GET /encoder.json` returns the file of the encoder. `/healthz`,
`/metrics` and the form of answers are those of `privot.collector.app`:

- 200: all shares are stored. The same bytes again get the same answer.
- 409: the shares in `failed` are not stored: another share has the same id (`other`), or the report was
  opened before, and is counted (`opened`).
- 400: nothing is stored. The bytes are no whole shares of this encoder, or are for the other server.
- 429, 503: nothing is stored. Send the same bytes again later.

A device deletes its two shares once **both** servers have answered 200, or `opened`.

**Privacy review.** A server sees a share, which is noise by itself, with the sender's address and the
time: it learns who takes part, and nothing else about the record. It stores neither address nor time;
its database has shares and ids in the order of arrival until they are opened. No share, id or address is
logged or answered. Counts reveal the number of participants. **Both connections of a device together
carry its record**: each needs TLS, and no proxy that ends TLS may serve both.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from privot.aggregated.server import REFUSED, Server
from privot.collector.app import Collector, ServedCampaign
from privot.collector.arrivals import MAX_BODY_BYTES, Campaign, GroupCommit, ParsedBatch
from privot.collector.store import Records, Statuses, Store, StoreStopped
from privot.core.errors import PrivotError
from privot.wire.report import WireError


class ServedShares(Server):
    """Server with the interfaces of a collector's `Campaign` and `Store`; it logs database errors."""

    signature = None

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        super().__init__(folder)
        self._log, self.fingerprint = log, self.encoder.fingerprint
        self.text = (folder / "encoder.json").read_bytes()
        self._length = self.encoder.share_length(self.role)

    def most_bytes(self, as_json: bool) -> int:
        """See `Campaign`."""
        return max(self._length, MAX_BODY_BYTES)

    def read(self, body: bytes, as_json: bool, until: int | None = None) -> ParsedBatch:
        """See `Campaign`."""
        role, count = self.role, len(body) // self._length
        if not body or len(body) % self._length:
            words = f"the body is no whole shares: the {role}'s have {self._length:,} bytes each"
            raise WireError("length", words)
        records = np.frombuffer(body, np.uint8).reshape(count, -1)
        head = np.frombuffer(self.encoder.head(role), np.uint8)
        if (records[:, : len(head)] != head).any():
            words = f"a share is not for the {role}, or of another encoder: send it there"
            raise WireError("fingerprint", words)
        return ParsedBatch(records, range(count), [])

    def append(self, records: Records) -> Statuses:
        """See `Store`."""
        try:
            return np.array(self.store([share.tobytes() for share in records]), np.uint8)
        except PrivotError as error:  # a database error: its message has no part of a share
            self._log(str(error))
            raise StoreStopped("shares cannot be stored now: send them again later") from None

    @property
    def count(self) -> int:
        """Number of shares that are stored and not opened, whether verified or not."""
        with self._open() as database:
            return int(database.execute("SELECT COUNT(*) FROM shares").fetchone()[0])

    def disk_bytes(self) -> int:
        """See `Store`."""
        return self._database.stat().st_size


class ShareCollector(Collector):
    """ASGI application that accepts the shares of one server; see `Collector` for its options."""

    _root_path, _post_path, _text_path = "", "/shares", "/encoder.json"
    _types = ("application/octet-stream",)  # browsers ask before pages of other sites post it
    _unstored: ClassVar = {key: (word, f"its report {why}") for key, (word, why) in REFUSED.items()}
    _failed_status = (409, 409)

    def __init__(self, server: ServedShares, *options: Any, **named: Any) -> None:
        writer = GroupCommit(cast(Store, server))
        super().__init__([ServedCampaign(cast(Campaign, server), writer)], *options, **named)
