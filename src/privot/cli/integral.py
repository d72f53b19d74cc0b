"""Commands of a curator who holds raw records and publishes nothing but draws. They need PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from privot.cli.console import Force, Ignore, Separator, note, record_form
from privot.errors import PrivotError
from privot.privacy.rounding import at_most

if TYPE_CHECKING:
    from privot.integral import IntegralModel


def fit(
    people: Annotated[Path, Argument(help="Raw records: csv, csv.gz, parquet, npz.")],
    schema: Annotated[Path, Option(help="What a record may be: schema.toml.")],
    draws: Annotated[int, Option(help="How many draws will ever be published.")],
    output: Annotated[Path, Option("-o", "--output", help="The secret folder.")] = Path("secret"),
    epsilon: Annotated[
        float | None, Option(help="Of ALL draws together; each costs epsilon/draws.")
    ] = None,
    epsilon_per_draw: Annotated[
        float | None, Option(help="Of each draw, instead; all cost draws times that.")
    ] = None,
    method: Annotated[str, Option(help="clip (a clipped ratio) or boost.")] = "clip",
    estimator: Annotated[
        str, Option(help="What learns the ratio: auto, spline, mlp or trees.")
    ] = "auto",
    seed: Annotated[int, Option(help="Of weights and batches; never of a draw.")] = 0,
    separator: Separator = ",",
    ignore: Ignore = None,
) -> None:
    """Learn a density from raw records. The folder stays secret; only draws from it may leave.

    Example: privot integral fit people.csv --schema schema.toml --epsilon 20 --draws 50 -o secret/
    """
    from privot.files import require_place
    from privot.integral import BoostSettings, ClippedRatioSettings
    from privot.integral import fit as fit_model
    from privot.release import read_table
    from privot.schema import Schema

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
    _tell_edges(model)


def _tell_edges(model: IntegralModel) -> None:
    """What boosting is proven to gain, to the curator alone: not on standard output."""
    if not model.edges:
        return
    from privot.integral.bounds import gain_limit

    rounds = [f"{edge.gamma_p:.2f} / {edge.gamma_q:.2f}" for edge in model.edges]
    note(
        f"for your eyes alone, as they are functions of the raw records: edges γ_P / γ_Q of the "
        f"rounds {', '.join(rounds)}; so records are at least {model.proven_gain:.3f} nats likelier "
        f"than under the reference, in the mean (a limit for any records: "
        f"{gain_limit(model.density):.3f})"
    )


def sample(
    model: Annotated[Path, Argument(help="The secret folder.")],
    num_rows: Annotated[int, Option("-n", "--num-rows", help="Records to draw.")] = 1,
    output: Annotated[Path, Option("-o", "--output", help="csv, csv.gz, parquet, npz.")] = Path(
        "draws.csv"
    ),
    shortfall: Annotated[
        float | None,
        Option(
            help="Do the same work whatever the data is; draws are then this close to exact, such "
            "as 1e-6, in total variation."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Spend draws of the declared budget, and write them. They may be published.

    Example: privot integral sample secret/ -n 10 -o draws.csv
    """
    from privot.files import claim_file
    from privot.integral import IntegralModel
    from privot.release import write_table
    from privot.tables.files import SUFFIXES

    # Whatever can be refused is refused before draws are spent.
    claim_file(output, inputs=[model], suffixes=SUFFIXES, force=force)
    loaded = IntegralModel.load(model)
    proposals = None if shortfall is None else loaded.density.proposals_for(shortfall)
    write_table(loaded.sample(num_rows, proposals=proposals), output)
    print(
        f"{output}: {num_rows:,} draws, {loaded.draws_left:,} of {loaded.ledger.plan.draws:,} left; "
        f"together {loaded.guarantee}"
    )
