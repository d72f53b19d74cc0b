"""The numbers of a campaign's dashboard: how many reports there are, and what they say so far.

**Privacy review.** Everything is a function of reports, of a published model, or of the number of people
who took part, which is public (post-processing).
"""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa

from privot.aggregated import AggregatedModel, Encoder, Server
from privot.aggregated.shares import ROLES
from privot.campaign.folder import CampaignFolder
from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.local import fit
from privot.privacy import ApproximateDP, DistributedDP, PureDP
from privot.privacy.rounding import at_most
from privot.randomizer import Release, plan_reports
from privot.randomizer.information import joint_errors
from privot.schema import Schema

_ROWS, _BINS, _CELLS = 40_000, 30, 24  # of a sample; of a number; along each side of a map


def write_status(campaign: CampaignFolder, release: Release, *, seed: int = 0) -> dict[str, Any]:
    """Write the dashboard's data to `web/status.json`, and return them.

    The data are the number of reports, the expected error, and each column's estimated distribution.

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
    """Write the dashboard's data of a campaign of two servers, whose folders are in the campaign's own.

    No report is opened. The result is a line with the number of reports of which both servers hold a
    share; if they are enough for a batch, the next commands follow as further lines.

    Arguments:
        campaign: The campaign.
        model: Model of a batch, whose distributions are shown from now on; if it is given, the servers'
            folders may be missing.

    Raises:
        PrivotError: if the model is of another encoder, or a folder and the model are missing.
    """
    encoder, places = campaign.rule, [campaign.folder / role for role in ROLES]
    assert isinstance(encoder, Encoder)
    if model is not None and model.rule.to_json() != encoder.to_json():
        raise PrivotError("the model is of another campaign: give one of this campaign's sums")
    if all(place.exists() for place in places):
        leader, helper = (Server(place) for place in places)
        held = len(leader.ids(verified=False) & helper.ids(verified=False))
        opened = min(leader.num_opened, helper.num_opened)
    elif model is not None:
        held, opened = 0, sum(model.batches)
    else:
        raise PrivotError(
            f"{campaign.folder} has no folders of both servers: each counts its own shares by `privot "
            "aggregate`; or give --release model/"
        )
    # Only a model changes this file, so that columns stay when others update the counts.
    shown = campaign.folder / "columns.json"
    if model is not None:
        with replacing_file(shown) as draft:
            columns = _columns(campaign, model.sample(_ROWS, seed=0), True)
            draft.write_text(json.dumps(columns), encoding="utf-8")
    columns = json.loads(shown.read_text(encoding="utf-8")) if shown.exists() else []
    numbers = {"reports": held, "needed": encoder.people, "opened": opened, "columns": columns}
    _write(campaign, encoder.guarantee(encoder.people), expected_error=None, **numbers)
    batch = f"a batch is {encoder.people:,} or more"
    more = _next_commands(campaign, opened, encoder.proofs) if held >= encoder.people else []
    return [f"{held:,} reports are held by both servers, {opened:,} were opened; {batch}", *more]


def _next_commands(campaign: CampaignFolder, opened: int, proofs: bool) -> list[str]:
    """Return the commands that open all reports that both servers hold, and learn from their sums."""
    name, places = campaign.folder.resolve().name, [campaign.folder / role for role in ROLES]
    name += f"-after-{opened}" if opened else ""  # files of another batch are there
    ids = " ".join(f"--release {quote(str(place / 'ids.txt'))}" for place in places)
    sums = {quote(str(place)): quote(f"{name}-{place.name}.json") for place in places}
    commands = [f"aggregate {place}" for place in sums]
    if proofs:
        others = [quote(str(place / "proofs.bin")) for place in reversed(places)]
        commands += [f"{each} --verify {path}" for each, path in zip(commands, others, strict=True)]
    for place, path in sums.items():
        commands.append(f"aggregate {place} {ids} -o {path}")
        ids += f" --release {path}"  # so that the other opens no other batch
    commands += [f"fit {' '.join(sums.values())} -o {quote(name + '-model')}"]
    return [f"next: privot {each}" for each in commands]


def _write(
    campaign: CampaignFolder, guarantee: PureDP | ApproximateDP | DistributedDP, **numbers: Any
) -> dict[str, Any]:
    """Write a campaign's title, its guarantee and its numbers."""
    own = {"guarantee": _in_figures(guarantee), "promise": guarantee.describe()}
    status = {"title": campaign.title} | own | numbers
    with replacing_file(campaign.web / "status.json") as draft:
        draft.write_text(json.dumps(status), encoding="utf-8")
    return status


def expected_error(campaign: CampaignFolder, people: int) -> str | None:
    """Return the expected error of estimates from `people` reports, as text; None if unknown."""
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
        error = plan.columns[0].options[0].error  # W₂, about; the range has length 2
        return f"{min(1.0, error / 2):.1%} of the range"
    return None


def _columns(campaign: CampaignFolder, sample: pa.Table, binned: bool) -> list[dict[str, Any]]:
    """Return question and shares of every column; `binned` if numbers are known by bins alone."""
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


def _in_figures(guarantee: PureDP | ApproximateDP | DistributedDP) -> str:
    """Return ε of a local guarantee, or every number of one that trusts somebody."""
    epsilon = f"ε = {at_most(guarantee.epsilon)}"
    return str(guarantee) if isinstance(guarantee, DistributedDP) else epsilon
