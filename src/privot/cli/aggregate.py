"""Sums by two servers: `privot aggregate`, and what calibrate, privatize and fit do with its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from privot.cli.console import Force
from privot.core.errors import PrivotError
from privot.core.files import claim_file, claim_folder, replacing_file, replacing_folder

if TYPE_CHECKING:
    from privot.aggregated import Encoder, Server
    from privot.schema import Schema

_IDS = "ids.txt"


def aggregate(
    folder: Path = Argument(help="The server's folder; made at first, with --encoder and --role."),
    shares: list[Path] | None = Argument(None, help="Files of shares to accept."),
    encoder: Path | None = Option(None, help="Encoder of the shares: encoder.json."),
    role: str | None = Option(None, help="leader or helper."),
    release: list[Path] | None = Option(
        None,
        help="A server's ids.txt; give both servers' to both: sum what both list, once, with noise.",
    ),
    output: Path = Option(Path("sums.json"), "-o", "--output", help="With --release: the sums."),
    force: Force = False,
) -> None:
    """Be one of two servers that sum shares: accept them, or release the noisy sum of a batch.

    Records are private if one of the two servers is honest. Each is run by somebody else, and gets its
    own file of shares. FOLDER/ids.txt lists what was accepted, for the other server.

    Example: privot aggregate leader/ leader.shares --encoder encoder.json --role leader

    Then: privot aggregate leader/ --release leader/ids.txt --release helper/ids.txt -o leader.json
    """
    from privot.aggregated import Encoder, Server
    from privot.aggregated.shares import ROLES

    if not folder.exists():
        if encoder is None or role not in ROLES:
            raise PrivotError(f"{folder} is not there: give --encoder and --role to make it")
        Server.create(folder, Encoder.load(encoder), role)
    server = Server(folder)
    if role not in (None, server.role):
        raise PrivotError(f"role {role!r}: {folder} is the {server.role}'s")
    if release:
        claim_file(output, inputs=release, suffixes=(".json",), force=force)
        text = server.release(_listed_by_all(release)).read_text(encoding="utf-8")
        with replacing_file(output) as draft:
            draft.write_text(text, encoding="utf-8")
        print(f"{output}: the {server.role}'s noisy sums, to publish")
        return
    new = sum(server.accept(*read_shares(path, server)) for path in shares or [])
    ids = server.ids()
    with replacing_file(folder / _IDS) as draft:
        draft.write_text("".join(f"{each.hex()}\n" for each in sorted(ids)), encoding="utf-8")
    least = server.encoder.people
    print(f"{folder}: {new:,} new shares, {len(ids):,} in all; a batch is {least:,} or more")


def read_shares(path: Path, server: Server) -> list[bytes]:
    """Return the shares of a file, one after another, all of one length."""
    length = server.encoder.share_length(server.role)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PrivotError(f"shares {path} cannot be read: {error}") from None
    if len(data) % length:
        raise PrivotError(
            f"{path} does not hold whole shares for the {server.role}: give what `privot privatize` "
            "wrote for it"
        )
    return [data[start : start + length] for start in range(0, len(data), length)]


def _listed_by_all(files: Sequence[Path]) -> frozenset[bytes]:
    try:
        lists = [path.read_text(encoding="utf-8").split() for path in files]
        return frozenset.intersection(*(frozenset(map(bytes.fromhex, ids)) for ids in lists))
    except (OSError, ValueError) as error:
        raise PrivotError(
            f"--release cannot be read ({error}): give both servers' {_IDS}"
        ) from None


def calibrate_encoder(schema: Schema, path: Path, output: Path, force: bool) -> None:
    """Choose the noise of two servers, and write the encoder."""
    from privot.aggregated import Encoder

    if output.name == "randomizer.json":
        output = output.with_name("encoder.json")
    claim_file(output, inputs=[path], suffixes=(".json",), force=force)
    encoder = Encoder.calibrate(schema)
    encoder.save(output)
    guarantee = encoder.guarantee(encoder.people)
    print(f"{output}: {guarantee}")
    print(guarantee.describe())
    leader, helper = (encoder.share_length(role) for role in ("leader", "helper"))
    print(f"shares of a record: {leader:,} bytes for the leader, {helper:,} for the helper")


def encoder_in(path: Path) -> Encoder | None:
    """Return the encoder in a file; None if it holds something else."""
    if not path.is_file() or b'"query":{' not in path.read_bytes():
        return None
    from privot.aggregated import Encoder

    return Encoder.load(path)


def encode_records(encoder: Encoder, table: Path, output: Path, inputs: Sequence[Path]) -> None:
    """Write a folder with a file of shares for each server, of records in random order."""
    import numpy as np

    from privot.aggregated.shares import ROLES
    from privot.central.fitting import raw_table

    claim_folder(output, ("*.shares",), inputs=inputs)
    records = raw_table(table, encoder.schema)
    records = records.take(np.random.default_rng().permutation(records.num_rows))
    with replacing_folder(output, secret=True) as draft:
        leader, helper = (draft / f"{role}.shares" for role in ROLES)
        with leader.open("wb") as first, helper.open("wb") as second:
            for shares in encoder.encode_table(records):
                first.write(shares[0])
                second.write(shares[1])
    print(f"{output}: shares of {records.num_rows:,} records; send each file to its own server")


def fit_sums(files: Sequence[Path], output: Path, seed: int, force: bool) -> None:
    """Add up the sums of both servers, learn from them, and save the model."""
    from privot.aggregated import fit, open_sums
    from privot.central import SumSettings
    from privot.models import FILES

    claim_folder(output, FILES, inputs=files, force=force)
    leader, helper = files
    release = open_sums(leader, helper)
    model = fit(release, SumSettings(seed=seed))
    model.save(output)
    print(f"{output}: learned from the sums of {len(release):,} reports, {model.guarantee}")
