"""Commands of who sums records: a curator (`privot integral`, `privot central`), two servers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from privot.cli.console import Force, Ignore, Separator, note, note_unit, record_form, training_bar
from privot.core.errors import PrivotError
from privot.core.files import (
    claim_file,
    claim_folder,
    create,
    replacing_file,
    replacing_folder,
    require_place,
)
from privot.privacy.rounding import at_most

if TYPE_CHECKING:
    from privot.aggregated import Encoder, Server
    from privot.integral import IntegralModel
    from privot.schema import Schema


def fit_integral(
    people: Path = Argument(help="Raw records: csv, csv.gz, parquet, npz."),
    schema: Path = Option(help="Schema of the records: schema.toml."),
    draws: int = Option(help="Number of draws that will ever be published."),
    output: Path = Option(Path("secret"), "-o", "--output", help="The secret folder."),
    epsilon: float | None = Option(None, help="ε of ALL draws together; each costs epsilon/draws."),
    epsilon_per_draw: float | None = Option(
        None, help="ε of each draw, instead; all cost draws times that."
    ),
    method: str = Option("clip", help="clip (a clipped ratio) or boost."),
    estimator: str = Option("auto", help="Learner of the ratio: auto, spline, mlp or trees."),
    seed: int = Option(0, help="Seed of weights and batches; never of a draw."),
    separator: Separator = ",",
    ignore: Ignore = None,
) -> None:
    """Learn a density from raw records. The folder must stay secret; only draws may be published.

    Example: privot integral fit people.csv --schema schema.toml --epsilon 20 --draws 50 -o secret/
    """
    from privot.integral import BoostSettings, ClippedRatioSettings
    from privot.integral import fit as fit_model
    from privot.schema import Schema
    from privot.tables.files import read_table

    if method not in ("clip", "boost"):
        raise PrivotError(f"method is {method!r}: choose clip or boost")
    require_place(output, [people, schema])
    if output.exists():  # before an hour of fitting, not after
        raise PrivotError(f"{output} exists: a model's ledger is never overwritten; name another")
    if method == "boost" and estimator == "spline":
        raise PrivotError(
            "estimator is 'spline', which --method boost cannot use: choose mlp or trees"
        )
    settings: ClippedRatioSettings | BoostSettings
    if method == "clip":
        settings = ClippedRatioSettings(estimator=estimator, seed=seed)  # type: ignore[arg-type]  # checked there
    else:
        settings = BoostSettings(classifier="trees" if estimator == "trees" else "mlp", seed=seed)
    declared = Schema.load(schema)
    model = fit_model(
        read_table(people, declared, record_form(separator, ignore)),
        declared,
        draws=draws,
        epsilon=epsilon,
        epsilon_per_draw=epsilon_per_draw,
        settings=settings,
    )
    model.save(output)
    price = model.density.epsilon
    print(f"{output}: {draws:,} draws of ε = {at_most(price)} each, together {model.guarantee}")
    note("keep this folder secret: the density, its weights and plots of it are not private")
    _note_edges(model)


def _note_edges(model: IntegralModel) -> None:
    """Print the proven gain of boosting on standard error, for the curator alone."""
    if not model.edges:
        return
    from privot.integral.tilts import gain_limit

    rounds = [f"{edge.gamma_p:.2f} / {edge.gamma_q:.2f}" for edge in model.edges]
    note(
        f"confidential, as they are functions of the raw records: edges γ_P / γ_Q of the "
        f"rounds {', '.join(rounds)}; so records are at least {model.proven_gain:.3f} nats likelier "
        f"than under the reference, in the mean (a limit for any records: "
        f"{gain_limit(model.density):.3f})"
    )


def sample_integral(
    model: Path = Argument(help="The secret folder."),
    num_rows: int = Option(1, "-n", "--num-rows", help="Records to draw."),
    output: Path = Option(Path("draws.csv"), "-o", "--output", help="csv, csv.gz, parquet, npz."),
    shortfall: float | None = Option(
        None,
        help="Do the same work whatever the data is; draws are then this close to exact, such "
        "as 1e-6, in total variation.",
    ),
    force: Force = False,
) -> None:
    """Spend draws of the declared budget, and write them. They may be published.

    Example: privot integral sample secret/ -n 10 -o draws.csv
    """
    from privot.integral import IntegralModel
    from privot.tables.files import SUFFIXES, write_table

    # The output is checked before draws are spent.
    claim_file(output, inputs=[model], suffixes=SUFFIXES, force=force)
    loaded = IntegralModel.load(model)
    proposals = None if shortfall is None else loaded.density.proposals_for(shortfall)
    write_table(loaded.sample(num_rows, proposals=proposals), output)
    print(
        f"{output}: {num_rows:,} draws, {loaded.draws_left:,} of {loaded.ledger.plan.draws:,} left; "
        f"together {loaded.guarantee}"
    )


Records = Annotated[
    Path, Argument(help="Private: csv, parquet, npz (arrays named as columns), image folder.")
]
Declared = Annotated[
    Path, Option("--schema", help="Schema of the records: columns, or images and their label.")
]
Folder = Annotated[Path, Option("-o", "--output", help="Folder of the model.")]
Seed = Annotated[int, Option(help="Seed of public draws, never of noise.")]
Resume = Annotated[bool, Option("--resume", help="Continue an interrupted fit.")]


SUMS, _SLICES = "Options of --method sums", "Options of --method slices"
SUM_SETTINGS = "privot.central.fitting:SumSettings"


def fit(
    context: typer.Context,
    data: Records,
    schema: Declared,
    epsilon: float | None = Option(
        None, help="ε of the whole run; left out if the schema promises one."
    ),
    output: Folder = Path("model"),
    delta: float | None = Option(
        None, help="δ of the whole run, default 1e-5; left out if the schema promises one."
    ),
    method: str | None = Option(
        None,
        help="sums (a mixture or a map by a few noisy sums, seconds) or slices (a network by noisy "
        "slices, minutes); default: sums where the schema allows them.",
    ),
    low_pass: int | None = Option(
        None, help="Images: frequencies along each axis; default 14 for sums, 7 for slices."
    ),
    degree: int | None = Option(
        None, help="1: means; 2 (default): second moments as well.", rich_help_panel=_SLICES
    ),
    steps: int | None = Option(
        None, help="Number of releases, default 60,000.", rich_help_panel=_SLICES
    ),
    batch_size: int | None = Option(
        None, help="Records per release, default 100.", rich_help_panel=_SLICES
    ),
    num_projections: int | None = Option(
        None, help="Slices per release, default 16.", rich_help_panel=_SLICES
    ),
    neighboring: str | None = Option(
        None,
        help="replace_one (default), or zero_out with padded Poisson batches.",
        rich_help_panel=_SLICES,
    ),
    release: str | None = Option(
        None, help="every_step (default) or once.", rich_help_panel=_SLICES
    ),
    loss: str | None = Option(
        None,
        help="mean_first (default), sliced, or (with --release once) entropic.",
        rich_help_panel=_SLICES,
    ),
    seed: Seed = 0,
    separator: Separator = ",",
    ignore: Ignore = None,
    resume: Resume = False,
    force: Force = False,
) -> None:
    """Learn a model of records that a trusted curator holds: central differential privacy.

    Ctrl-C saves state and ledger, --resume continues both.

    Example: privot central fit digits.npz --schema schema.toml --epsilon 10 -o model/

    A network: privot central fit people.csv --schema schema.toml --epsilon 10 --method slices
    """
    from privot.central import fit as fit_model
    from privot.models import FILES
    from privot.schema import Schema
    from privot.tables.files import read_table

    # The settings of slices need PyTorch, which a fit by sums does not; so options are listed here.
    slices = {
        "degree": degree,
        "steps": steps,
        "batch_size": batch_size,
        "num_projections": num_projections,
        "neighboring": neighboring,
        "release": release,
        "loss": loss,
    }
    declared = Schema.load(schema)
    shared = {"low_pass": low_pass, "seed": seed}
    settings = _settings(method, declared, {"sums": context.obj, "slices": slices}, shared)
    claim_folder(output, FILES, inputs=[data, schema], force=force)
    checkpoint = output.with_name(output.name + ".checkpoint")
    table = read_table(data, declared, record_form(separator, ignore))
    note_unit(declared.unit)
    with training_bar() as progress:
        model = fit_model(
            table,
            declared,
            epsilon=epsilon,
            delta=delta,
            method=settings,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    model.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: learned through {model.releases:,} releases, {model.guarantee}")
    note(
        f"keep {checkpoint}.ledger, the ledger of the budget; another run on these records adds to it"
    )


def _settings(
    method: str | None, schema: Schema, given: dict[str, dict[str, Any]], shared: dict[str, Any]
) -> Any:
    """Return the settings of the chosen method; refuse options of the other one."""
    from privot.central.fitting import SumSettings, settings_of

    kind = type(settings_of(method, schema))  # type: ignore[arg-type]  # checked there
    chosen, other = ("sums", "slices") if kind is SumSettings else ("slices", "sums")
    for name, value in given[other].items():
        if value is not None:
            raise PrivotError(
                f"--{name.replace('_', '-')} is an option of --method {other}, and this fit is by "
                f"{chosen}: drop it, or give --method {other}"
            )
    options = {name: value for name, value in (given[chosen] | shared).items() if value is not None}
    if chosen == "sums" and "low_pass" in options:
        options.setdefault("residual_low_pass", options["low_pass"])
    return kind(**options)


def adapt(
    source: Path = Argument(help="Public npz: records x, classes y."),
    target: Path = Argument(help="Private npz: records x, no classes."),
    epsilon: float = Option(help="ε of the target records."),
    unit: str = Option(help="Unit that one target record belongs to: person, …."),
    output: Path = Option(Path("classifier"), "-o", "--output", help="Folder of the model."),
    delta: float = Option(1e-5, help="δ of the target records."),
    maximum: float = Option(255.0, help="Value that is scaled to 1 (public)."),
    rounds: int = Option(2, help="Number of rounds of noisy sums by class."),
    training_steps: int = Option(
        1000, help="Optimizer steps on the source, before the first round; half as many after each."
    ),
    seed: int = Option(0, help="Seed of weights and source batches."),
    resume: bool = Option(False, "--resume", help="Continue an interrupted run."),
    force: Force = False,
) -> None:
    """Learn to classify private, unlabeled records from public, labeled ones, by a few noisy sums.

    With too few records for the noise, the command refuses before any budget is spent.

    Example: privot central adapt source.npz target.npz --unit person --epsilon 10 -o classifier/
    """
    import numpy as np

    from privot.central import AdaptationSettings
    from privot.central import adapt as adapt_classifier
    from privot.models import FILES

    settings = AdaptationSettings(
        epsilon=epsilon,
        unit=unit,
        delta=delta,
        rounds=rounds,
        training_steps=training_steps,
        seed=seed,
    )
    claim_folder(output, FILES, inputs=[source, target], force=force)
    if not 0 < maximum < float("inf"):
        raise PrivotError(f"--maximum {maximum}: give a positive number, such as 255")
    public = _arrays(source, ("x", "y"))
    private = _arrays(target, ("x",))
    note_unit(unit)
    checkpoint = output.with_name(output.name + ".checkpoint")
    with training_bar() as progress:
        adapted = adapt_classifier(
            np.clip(public["x"] / maximum, 0, 1),
            public["y"],
            np.clip(private["x"] / maximum, 0, 1),
            settings,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    adapted.save(output)
    checkpoint.unlink(missing_ok=True)
    print(f"{output}: adapted through {adapted.releases:,} noisy sums, {adapted.guarantee}")


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    """Read arrays x and y of an npz, also under the name of a split (`x_train`)."""
    import zipfile

    import numpy as np

    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {
                name.removesuffix("_train"): file[name]
                for name in file.files
                if name.removesuffix("_train") in ("x", "y")
            }
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise PrivotError(f"{path} cannot be read ({error}): give an npz of x and y") from None
    for name in needed:
        if name not in arrays:
            raise PrivotError(f"{path} has no array {name!r}: name it {name} or {name}_train")
        if arrays[name].dtype.kind not in "biuf":
            raise PrivotError(f"{path} has an array {name!r} of {arrays[name].dtype}: give numbers")
    return arrays


# `privot aggregate`, and what calibrate, privatize and fit do for two servers.

_IDS = "ids.txt"


def aggregate(
    folder: Path = Argument(help="The server's folder; made at first, with --encoder and --role."),
    shares: list[Path] | None = Argument(None, help="Files of shares to accept."),
    encoder: Path | None = Option(None, help="Encoder of the shares: encoder.json."),
    role: str | None = Option(None, help="leader or helper."),
    release: list[Path] | None = Option(
        None,
        help="ids.txt of a server. Give both servers the ids.txt of both: each sums, once and with "
        "noise, the reports that both list.",
    ),
    output: Path = Option(Path("sums.json"), "-o", "--output", help="With --release: the sums."),
    key: Path | None = Option(
        None, help="With proofs: the servers' verification key, a file; made if it is not there."
    ),
    verify: Path | None = Option(
        None, help="proofs.bin of the other server: verify reports by it."
    ),
    force: Force = False,
) -> None:
    """Be one of two servers that sum shares: accept them, or release the noisy sum of a batch.

    Records are private if one of the two servers is honest. Each is run by somebody else, and gets its
    own file of shares. FOLDER/ids.txt lists what was accepted, for the other server. Where shares have
    proofs, it gets FOLDER/proofs.bin, and ids.txt lists what was verified.

    Example: privot aggregate leader/ leader.shares --encoder encoder.json --role leader

    Then: privot aggregate leader/ --release leader/ids.txt --release helper/ids.txt -o leader.json
    """
    from privot.aggregated import Encoder, Server
    from privot.aggregated.shares import ROLES

    if not folder.exists():
        if encoder is None or role not in ROLES:
            raise PrivotError(f"{folder} is not there: give --encoder and --role to make it")
        Server.create(folder, Encoder.load(encoder), role, verify_key(key) if key else None)
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
    if verify:
        server.verify(verify)
    elif server.encoder.proofs:
        print(f"{server.prepare()}: for the other server alone, to verify reports")
    ids = server.ids()
    with replacing_file(folder / _IDS) as draft:
        draft.write_text("".join(f"{each.hex()}\n" for each in sorted(ids)), encoding="utf-8")
    least = server.encoder.people
    which = "verified" if server.encoder.proofs else "in all"
    print(f"{folder}: {new:,} new shares, {len(ids):,} {which}; a batch is {least:,} or more")


def verify_key(path: Path) -> bytes:
    """Return the verification key in a file, and make it if there is none."""
    if not path.exists():
        create(path, secret=True)
        path.write_text(secrets.token_hex(16) + "\n", encoding="utf-8")
        print(f"{path}: the key of both servers; give it to the other, and to nobody else")
    try:
        return bytes.fromhex(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PrivotError(f"--key {path} cannot be read ({error}): copy it again") from None


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


def calibrate_encoder(
    schema: Schema, path: Path, output: Path, force: bool, proofs: bool = False
) -> None:
    """Choose the noise of two servers, and write the encoder."""
    from privot.aggregated import Encoder

    if output.name == "randomizer.json":
        output = output.with_name("encoder.json")
    claim_file(output, inputs=[path], suffixes=(".json",), force=force)
    encoder = Encoder.calibrate(schema, proofs)
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
