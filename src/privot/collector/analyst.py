"""Sealed reports: encrypted by devices to the analyst's key, mixed by a shuffler, opened in batches.

A report is encrypted by **HPKE in base mode** (RFC 9180; DHKEM(P-256, HKDF-SHA256), HKDF-SHA256,
AES-128-GCM), which browsers compute with WebCrypto. The plaintext is the whole report in its binary
form, with time 0. The parameter `info` is `privot sealed report 1` and the campaign's fingerprint, so a
report that was sealed for one campaign cannot be opened in another. A device sends the result as the
payload of another report: the encapsulated key (65 bytes), the ciphertext and the tag (16 bytes). This
report's id is the beginning of the payload's SHA-256, and its time is 0. So the same sealed bytes count
as one report however often they are sent. All sealed reports of a campaign have one length, because
their plaintexts have one length.

**Privacy review.** The table shows what each party sees of a person's report; the list, which guarantee
remains if a party deviates from the protocol. ε₀ is the ε of the noise in one report.
`privot.randomizer.budget` defines the adjacency, and ε of a batch by its number of accepted reports.

| party | sees |
|---|---|
| shuffler | who sent, when, and sealed bytes of one length; no report |
| analyst | all reports of a batch at once, in random order, with random ids; no sender, no time |
| both together | who sent which report: only the ε₀ of its noise remains |

- A **shuffler** alone can neither open a report nor change its content. If an analyst cooperates, or if
  it replaces the reports of all other people by its own, it undoes the mixing: ε₀ remains. If it **drops
  or delays** reports, ε is computed from the reports in the batch, and this module refuses a batch of
  fewer reports than the promise's people. **Duplicates** count once, by the id inside the seal.
- An **analyst** can skip this refusal, so only the shuffler prevents small batches. An analyst who
  observes the shuffler's network or disk, on which reports wait in order of arrival, is both parties.
- **Waves** of the same people: each has its own store, key and address (`docs/guides/waves.md`).
- A **client** can send reports of people who do not exist. They count as people in ε, so the promise's
  number of people must be reached by honest ones. A report that states its time is not counted, because
  the time could identify its sender.
- Whoever replaces the **public key** on its way can read the reports. So devices and pages pin the key.
"""

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
from privot.randomizer.integrity import read_pem, write_key
from privot.randomizer.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import REPORT_ID, ReportTable
from privot.wire.report import ID_BYTES, WireError

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
        PrivotError: if the file has no key of the curve P-256, in PEM without a password.
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
    """Encrypt a report, without its time, to the analyst's key.

    A report must be sealed once only: if it were in two batches, its id would link them.

    Arguments:
        report: The report.
        public_key: The analyst's public key: 65 bytes in base64.

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
    timeless = replace(report, time=0).to_bytes()
    sealed = _SUITE.encrypt(timeless, key, info=_INFO + report.fingerprint)
    return carrier_of(report.fingerprint, sealed)


def carrier_of(fingerprint: bytes, sealed: bytes) -> Report:
    """Return the report that carries sealed bytes to a shuffler."""
    return Report(fingerprint, hashlib.sha256(sealed).digest()[:ID_BYTES], 0, sealed)


def open_batch(path: Path, randomizer: Randomizer, key: ec.EllipticCurvePrivateKey) -> Collected:
    """Open one batch of a shuffler, and count each possible report once.

    A batch is a release of its own, because its reports were mixed with no others.

    Arguments:
        path: The batch.
        randomizer: Randomizer of the reports, whose schema promises shuffled reports.
        key: The analyst's private key.

    Returns:
        The release, the number of copies, and the quarantined reports, which cannot be opened, state
        their time, are impossible, or have another report's id.

    Raises:
        PrivotError: if the randomizer promises no shuffled reports, the batch cannot be read or is of
            another key or campaign, or fewer reports than the promise's people are accepted.
    """
    promise = randomizer.schema.shuffled_promise
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
    collected = _each_id_once(collect(opened, randomizer))
    _ = collected.release.guarantee  # refuses fewer than the promise's people
    unopened = pa.table({"reason": pa.array(reasons, pa.string())})
    quarantined = pa.concat_tables([unopened, collected.quarantined], promote_options="default")
    return replace(collected, quarantined=quarantined.select(collected.quarantined.schema.names))


def collect_batch(
    path: Path,
    output: Path,
    randomizer: Randomizer,
    key: Path,
    *,
    quarantine: Path | None = None,
    strict: bool = False,
) -> Collection:
    """Open one batch, and write its release and the list of quarantined reports to files.

    Arguments:
        path: The batch.
        output: File of the release; an existing one survives any failure.
        randomizer: Randomizer of the reports.
        key: File of the analyst's private key.
        quarantine: File of quarantined reports; `<output>.quarantine.csv` by default.
        strict: Whether to refuse a batch if a report is quarantined.

    Raises:
        PrivotError: as `open_batch`, and with `strict` if a report is quarantined.
    """
    batch = open_batch(path, randomizer, read_analyst_key(key))
    dropped, first = len(batch.quarantined), ""
    quarantine = (quarantine or quarantine_of(output)) if dropped else None
    if quarantine is not None:
        first = f"{path}: {batch.quarantined['reason'][0]}"
        if strict:
            raise refused_strictly(dropped, first)
        with replacing_file(quarantine) as draft:
            csv.write_csv(batch.quarantined, draft)
    batch.release.save(output)
    return Collection(randomizer, len(batch.release), batch.copies, dropped, quarantine, first)


def _opened(
    sealed: list[bytes], fingerprint: bytes, key: ec.EllipticCurvePrivateKey
) -> tuple[list[Report], list[str]]:
    """Return the reports that can be opened and counted, and a reason for each of the others."""
    opened, reasons = list[Report](), list[str]()
    for ciphertext in sealed:
        try:
            report = Report.from_bytes(_SUITE.decrypt(ciphertext, key, info=_INFO + fingerprint))
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


def _each_id_once(collected: Collected) -> Collected:
    """Count the first report of each id; quarantine reports with the same id and other content."""
    table = collected.release.table
    first_row: dict[bytes, int] = {}
    for row, report_id in enumerate(table.column(REPORT_ID).to_pylist()):
        first_row.setdefault(report_id, row)
    num_others = len(table) - len(first_row)
    if not num_others:
        return collected
    distinct = ReportTable.of(table.take(pa.array([*first_row.values()])))
    refused = pa.table({"reason": ["its id is another report's"] * num_others})
    quarantined = pa.concat_tables([collected.quarantined, refused], promote_options="default")
    return Collected(Release(distinct, collected.release.randomizer), quarantined, collected.copies)
