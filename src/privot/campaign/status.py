"""The data of a campaign's dashboard: number of reports, expected error, estimated distributions.

**Privacy review.** Everything is a function of reports, of a published model, or of the number of people
who took part, which is public (post-processing).
"""

import json
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa

from privot.aggregated import AggregatedModel, Encoder, Server
from privot.aggregated.shares import ROLES
from privot.campaign.folder import CampaignFolder
from privot.core.errors import PrivotError
from privot.core.files import write_file
from privot.local import fit
from privot.privacy import ApproximateDP, DistributedDP, PureDP
from privot.privacy.rounding import at_most
from privot.randomizer import Release, plan_reports
from privot.randomizer.information import joint_errors
from privot.schema import Schema

_ROWS = 40_000  # number of sampled records, from which distributions are estimated
_BINS, _CELLS = 30, 24  # number of bins of a number; number of cells along each side of a map


def write_status(campaign: CampaignFolder, release: Release, *, seed: int = 0) -> dict[str, Any]:
    """Write the dashboard's data to `web/status.json`, and return them.

    Arguments:
        campaign: The campaign.
        release: The campaign's reports so far.
        seed: Seed of the fit and the sample.

    Raises:
        PrivotError: if the release is of another randomizer.
    """
    randomizer = campaign.randomizer
    if release.randomizer.fingerprint != randomizer.fingerprint:
        raise PrivotError("the release is of another campaign: give the store of this one")
    sample = fit(release, seed=seed).sample(_ROWS, seed=seed)
    return _write(
        campaign,
        release.guarantee,
        reports=len(release),
        expected_error=expected_error(campaign, len(release)),
        columns=_columns(campaign, sample, randomizer.joint is not None),
    )


def write_share_status(campaign: CampaignFolder, model: AggregatedModel | None = None) -> list[str]:
    """Write the dashboard's data of a campaign of two servers, whose folders are in the campaign's.

    No report is opened.

    Arguments:
        campaign: The campaign.
        model: Model of a batch, whose distributions are shown from now on; if it is given, the servers'
            folders may be missing.

    Returns:
        Lines to print: the number of reports of which both servers have a share, and, if they are enough
        for a batch, the commands that open it.

    Raises:
        PrivotError: if the model is of another encoder, or a folder and the model are missing.
    """
    encoder, folders = campaign.rule, [campaign.folder / role for role in ROLES]
    assert isinstance(encoder, Encoder)
    if model is not None and model.rule.to_json() != encoder.to_json():
        raise PrivotError("the model is of another campaign: give one of this campaign's sums")
    if all(folder.exists() for folder in folders):
        leader, helper = (Server(folder) for folder in folders)
        num_waiting = len(leader.ids(verified=False) & helper.ids(verified=False))
        num_opened = min(leader.num_opened, helper.num_opened)
    elif model is not None:
        num_waiting, num_opened = 0, sum(model.batches)
    else:
        raise PrivotError(
            f"{campaign.folder} has no folders of both servers: each counts its own shares by `privot "
            "aggregate`; or give --release model/"
        )
    # Without a model, the distributions of the last one are shown.
    columns_file = campaign.folder / "columns.json"
    if model is not None:
        columns = _columns(campaign, model.sample(_ROWS, seed=0), True)
        write_file(columns_file, json.dumps(columns))
    columns = json.loads(columns_file.read_text("utf-8")) if columns_file.exists() else []
    people = encoder.people
    numbers = {"reports": num_waiting, "needed": people, "opened": num_opened, "columns": columns}
    _write(campaign, encoder.guarantee(people), expected_error=None, **numbers)
    line = f"{num_waiting:,} reports are held by both servers, {num_opened:,} were opened; "
    line += f"a batch is {people:,} or more"
    return [line, *(_next_commands(campaign, num_opened) if num_waiting >= people else [])]


def _next_commands(campaign: CampaignFolder, num_opened: int) -> list[str]:
    """Return the commands that open all reports that both servers have, and learn from their sums."""
    name, folders = campaign.folder.resolve().name, [campaign.folder / role for role in ROLES]
    name += f"-after-{num_opened}" if num_opened else ""  # files of earlier batches exist
    ids = " ".join(f"--release {quote(str(folder / 'ids.txt'))}" for folder in folders)
    sums = {quote(str(folder)): quote(f"{name}-{folder.name}.json") for folder in folders}
    commands = [f"aggregate {folder}" for folder in sums]
    if isinstance(campaign.rule, Encoder) and campaign.rule.proofs:
        proofs = [quote(str(folder / "proofs.bin")) for folder in reversed(folders)]
        pairs = zip(sums, proofs, strict=True)
        commands += [f"aggregate {folder} --verify {path}" for folder, path in pairs]
    for folder, path in sums.items():
        commands.append(f"aggregate {folder} {ids} -o {path}")
        ids += f" --release {path}"  # so that the other server opens no other batch
    commands += [f"fit {' '.join(sums.values())} -o {quote(name + '-model')}"]
    return [f"next: privot {command}" for command in commands]


def _write(
    campaign: CampaignFolder, guarantee: PureDP | ApproximateDP | DistributedDP, **numbers: Any
) -> dict[str, Any]:
    """Write a campaign's title, its guarantee and its numbers to `web/status.json`."""
    # One number for a pure local guarantee; every number of another.
    is_pure = isinstance(guarantee, PureDP)
    text = f"ε = {at_most(guarantee.epsilon)}" if is_pure else str(guarantee)
    status = {"title": campaign.title, "guarantee": text, "promise": guarantee.describe()} | numbers
    write_file(campaign.web / "status.json", json.dumps(status))
    return status


def expected_error(campaign: CampaignFolder, people: int) -> str | None:
    """Return the expected error of estimates from a number of reports, as text; None if unknown.

    It is the mean total variation of a table's columns, or else the W₂ distance as a share of the range.
    """
    randomizer = campaign.randomizer
    if (joint := randomizer.joint) is not None:
        one_way, _ = joint_errors(joint.design, joint.epsilon, people)  # total variations
        return f"{min(1.0, one_way.mean()):.1%}"
    plan = plan_reports(randomizer.schema, randomizer.guarantee.epsilon, people)
    if plan.table is not None:
        for option in plan.table.options:
            if (option.report, option.report_columns) == ("split", randomizer.num_reported):
                return f"{min(1.0, option.one_way):.1%}"
        return None
    if plan.columns:
        error = plan.columns[0].options[0].error  # in units in which the range has length 2
        return f"{min(1.0, error / 2):.1%} of the range"
    return None


def _columns(campaign: CampaignFolder, sample: pa.Table, binned: bool) -> list[dict[str, Any]]:
    """Return question and shares of each column; `binned` if only bins of numbers are known."""
    schema, questions = campaign.rule.schema, campaign.questions
    return [
        {"question": questions.get(name, name)} | _column_shares(schema, name, sample, binned)
        for name in schema.columns
    ]


def _column_shares(schema: Schema, name: str, sample: pa.Table, binned: bool) -> dict[str, Any]:
    """Return a column's shares by category, by equal bin of a number, or by cell of a map."""
    column = schema.columns[name]
    table = sample.select(list(column.table_columns(name)))
    if column.domain is None or (column.is_number and binned):
        coded = schema.coded[name]
        codes = coded.encode_codes(name, table)
        shares = np.bincount(codes, minlength=coded.alphabet.size) / len(codes)
        return {"labels": list(coded.labels), "shares": shares.round(4).tolist()}
    units = schema.points[name].encode_units(name, table)
    units = units[~np.isnan(units).any(axis=1)]
    if units.shape[1] == 2:
        edges = np.linspace(-1, 1, _CELLS + 1)
        cells = np.histogram2d(units[:, 1], units[:, 0], [edges, edges])[0] / max(1, len(units))
        return {"cells": cells.round(5).tolist()}
    edges = np.linspace(-1, 1, _BINS + 1)
    shares = np.histogram(units[:, 0], edges)[0] / max(1, len(units))
    ends = [str(bound) for bound in getattr(column, "bounds", ("-1", "1"))]
    return {"shares": shares.round(4).tolist(), "ends": ends}
