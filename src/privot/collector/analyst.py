"""Sealed reports: encrypted on the device to the analyst, mixed by a shuffler, opened in one batch.

A report is sealed by **HPKE in base mode** (RFC 9180; DHKEM(P-256, HKDF-SHA256), HKDF-SHA256,
AES-128-GCM), which browsers compute with WebCrypto. Its `info` is `privot sealed report 1` and the
campaign's fingerprint, so what was sealed for one campaign opens in no other; the content is the whole
report in its binary form, with time 0. What travels is again a report, whose payload is the encapsulated
key (65 bytes), the ciphertext, and the tag (16 bytes). Its id is the beginning of the payload's SHA-256
and its time is 0: so the same sealed bytes are one report however often they are sent, and all of a
campaign have one length, for payloads have.

**Privacy review.** Who sees what of a person's report, and what is left if a party lies. Adjacency,
and ε of a batch by the number of its accepted reports: `privot.randomizer.reports.shuffled`.

| party | sees |
|---|---|
| shuffler | who sent, when, and sealed bytes of one length; no report |
| analyst | all reports of a batch at once, in random order, ids that are coins; no sender, no time |
| both together | who sent which report: each keeps the ε₀ of its own noise, nothing else is left |

- A shuffler that **lies** (opens early, keeps the order, sells the senders) can undo the mixing for an
  analyst who helps, down to ε₀; alone it cannot open a report, or make one say something else. One that
  **drops or delays** reports makes batches smaller, and ε is computed from what is in them; below the
  promise's people a batch is refused here. It can also single out a person: it drops all other reports
  and puts **its own in their place**, whose public key it has, and if the analyst works with it, knows
  them: again ε₀. **Duplicates** count once, by the id inside the seal.
- An **analyst** who lies can skip the refusal of small batches, which only the shuffler prevents. One
  who sees the network of the shuffler, or of its batches, is both parties.
- **Waves** of the same people: each has a shuffler's store and an analyst's key of its own. Sealed bytes
  of one wave that are sent to another then do not open; with one key they would be in two batches, and
  the id inside would tell that report from all others. No shuffler can see it before.
- A **client** can send reports of people who do not exist, as in every survey: these count as people
  in ε, so the promise's people are honest ones. One that replays its sealed bytes sends nothing new, and
  one that seals a report again is counted once in a batch. A report that states its hour is not
  counted: the hour would say who sent it.
- Whoever exchanges the **public key** on its way to the device reads the reports: pin it, as a
  campaign's page does.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from privot.collector.collecting import (
    Collected,
    Collection,
    collect,
    quarantine_of,
    refused_strictly,
)
from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.device import Report, read_batch
from privot.randomizer.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import REPORT_ID, ReportTable
from privot.randomizer.reports.shuffled import shuffled_promise
from privot.randomizer.signing import read_pem, write_key
from privot.wire.report import ID_BYTES, WireError

SEAL_BYTES = 65 + 16  # encapsulated key and tag
_INFO = b"privot sealed report 1"
_SUITE = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def new_analyst_key(path: Path) -> str:
    """Write a fresh private key, readable by its owner only; return the public key for devices."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(path, key)
    return public_analyst_key(key)


def read_analyst_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read the analyst's private key.

    Raises:
        PrivotError: if it is none of P-256, in PEM without a password.
    """
    key = read_pem(path)
    if not (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)):
        raise PrivotError(f"key {path} is of another kind: give the campaign's analyst.key (P-256)")
    return key


def public_analyst_key(key: ec.EllipticCurvePrivateKey) -> str:
    """Return the public key, to which devices seal: an uncompressed point, 65 bytes in base64."""
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.b64encode(point).decode()


def seal_report(report: Report, public_key: str) -> Report:
    """Seal a report, without its time, to the analyst: once, for its id would link it in two batches.

    Arguments:
        report: The report.
        public_key: The analyst's, in base64.

    Raises:
        PrivotError: if the key is no point of P-256.
    """
    try:
        point = base64.b64decode(public_key, validate=True)
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise PrivotError(
            f"public key {public_key!r} is no point of P-256, 65 bytes in base64: give the analyst's"
        ) from None
    held = replace(report, time=0).to_bytes()
    sealed = _SUITE.encrypt(held, key, info=_INFO + report.fingerprint)
    return sealed_report(report.fingerprint, sealed)


def sealed_report(fingerprint: bytes, sealed: bytes) -> Report:
    """Return the report that carries sealed bytes to a shuffler."""
    return Report(fingerprint, hashlib.sha256(sealed).digest()[:ID_BYTES], 0, sealed)


def open_batch(path: Path, randomizer: Randomizer, key: ec.EllipticCurvePrivateKey) -> Collected:
    """Open one batch of a shuffler, and count each possible report once.

    A batch is a release of its own: its reports were mixed with one another and no others.

    Arguments:
        path: The batch.
        randomizer: Randomizer of the reports, which promises shuffled ones.
        key: The analyst's private key.

    Returns:
        The release, and what was dropped: what does not open, states its hour, is impossible, or has
        another report's id; copies are counted.

    Raises:
        PrivotError: if the randomizer promises no shuffled reports, the batch cannot be read or is of
            another key or campaign, or fewer reports than the promise's people are accepted.
    """
    promise = shuffled_promise(randomizer.schema)
    if promise is None:
        raise PrivotError(
            "the randomizer promises no shuffled reports: collect its reports without --key"
        )
    try:
        sealed = [*read_batch(path.read_bytes())]
    except OSError as error:
        raise PrivotError(f"batch {path} cannot be read ({error.strerror}): check it") from None
    except WireError as error:
        raise PrivotError(f"batch {path} is damaged ({error}): fetch it again") from None
    if len(sealed) < (people := promise.people or 1):
        raise PrivotError(
            f"batch {path} has {len(sealed):,} reports, and the promise is of {people:,} or more: the "
            "shuffler opened it too early; none of them is opened"
        )
    opened, reasons = _opened(sealed, bytes.fromhex(randomizer.fingerprint), key)
    if not opened:
        raise PrivotError(f"no report of {path} opens: give -r and --key of its campaign")
    found = _each_id_once(collect(opened, randomizer))
    refused = pa.table({"reason": pa.array(reasons, pa.string())})
    dropped = pa.concat_tables([refused, found.quarantined], promote_options="default")
    _ = found.release.guarantee  # refuses fewer than the promise's people
    return replace(found, quarantined=dropped.select(found.quarantined.schema.names))


def collect_batch(
    path: Path,
    output: Path,
    randomizer: Randomizer,
    key: Path,
    *,
    quarantine: Path | None = None,
    strict: bool = False,
) -> Collection:
    """Write the release of one batch, and what was dropped of it.

    Arguments:
        path: The batch.
        output: The release; an existing one survives any failure.
        randomizer: Randomizer of the reports.
        key: File of the analyst's private key.
        quarantine: File of dropped reports; `<output>.quarantine.csv` by default.
        strict: Refuse a batch of which anything is dropped but copies.

    Raises:
        PrivotError: see `open_batch`.
    """
    found = open_batch(path, randomizer, read_analyst_key(key))
    dropped, first, aside = len(found.quarantined), "", None
    if dropped:
        first = f"{path}: {found.quarantined['reason'][0]}"
        if strict:
            raise refused_strictly(dropped, first)
        aside = quarantine or quarantine_of(output)
        with replacing_file(aside) as draft:
            csv.write_csv(found.quarantined, draft)
    found.release.save(output)
    return Collection(randomizer, len(found.release), found.copies, dropped, aside, first)


def _opened(
    sealed: list[bytes], fingerprint: bytes, key: ec.EllipticCurvePrivateKey
) -> tuple[list[Report], list[str]]:
    """Return the reports inside seals, and why the others are not counted."""
    opened, reasons = list[Report](), list[str]()
    for each in sealed:
        try:
            report = Report.from_bytes(_SUITE.decrypt(each, key, info=_INFO + fingerprint))
        except InvalidTag:
            reasons.append("it was sealed to another key, for another campaign, or was damaged")
        except WireError as error:
            reasons.append(str(error))
        else:
            if report.time:
                reasons.append("it states the hour, which would say who sent it")
            else:
                opened.append(report)
    return opened, reasons


def _each_id_once(found: Collected) -> Collected:
    """Leave out reports whose id is another's, with other content."""
    table = found.release.table
    ids = table.column(REPORT_ID).to_pylist()
    first = dict(zip(reversed(ids), reversed(range(len(ids))), strict=True))
    if len(first) == len(ids):
        return found
    rows = sorted(first.values())
    refused = pa.table({"reason": ["its id is another report's"] * (len(ids) - len(rows))})
    return Collected(
        Release(ReportTable.of(table.take(pa.array(rows))), found.release.randomizer),
        pa.concat_tables([found.quarantined, refused], promote_options="default"),
        found.copies,
    )
