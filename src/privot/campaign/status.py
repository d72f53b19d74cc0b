"""How far a campaign is: how many reports there are, what they tell, and what error to expect by now.

**Privacy review.** A function of the reports: post-processing, which the campaign may publish.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from privot.campaign.campaign import CampaignFolder
from privot.errors import PrivotError
from privot.files import replacing_file
from privot.local import fit
from privot.privacy.rounding import at_most
from privot.release import Randomizer, Release, plan_reports
from privot.release.budget.information import joint_errors

_ROWS, _BINS, _CELLS = 40_000, 30, 24


def write_status(campaign: CampaignFolder, release: Release, *, seed: int = 0) -> dict[str, Any]:
    """Fit a release, and write what the dashboard shows to `web/status.json`; returns it.

    Arguments:
        campaign: Whose.
        release: What has come in.
        seed: Of the fit and the sample.

    Raises:
        PrivotError: if the release is of another randomizer.
    """
    if release.randomizer.fingerprint != campaign.randomizer.fingerprint:
        raise PrivotError("the release is of another campaign: give the store of this one")
    sample = fit(release, seed=seed).sample(_ROWS, seed=seed)
    status = {
        "title": campaign.title,
        "reports": len(release),
        "guarantee": f"ε = {at_most(release.guarantee.epsilon)}",
        "promise": release.guarantee.describe(),
        "expected_error": expected_error(campaign, len(release)),
        "columns": [
            {"question": campaign.questions.get(name, name)}
            | _drawn(release.randomizer, name, sample)
            for name in release.schema.columns
        ],
    }
    with replacing_file(campaign.web / "status.json") as draft:
        draft.write_text(json.dumps(status), encoding="utf-8")
    return status


def expected_error(campaign: CampaignFolder, people: int) -> str | None:
    """The error to expect of so many people's reports, in words; None where none is planned."""
    randomizer = campaign.randomizer
    if (joint := randomizer.joint) is not None:
        one_way, _ = joint_errors(joint.asked, joint.epsilon, people)
        return f"{min(1.0, one_way.mean()):.1%}"
    made = plan_reports(randomizer.schema, randomizer.guarantee.epsilon, people)
    if made.table is not None:
        own = ("split", randomizer.num_reported)
        options = {(each.report, each.report_columns): each for each in made.table.options}
        return f"{min(1.0, options[own].one_way):.1%}" if own in options else None
    if made.columns:
        first = made.columns[0]
        return f"{min(1.0, first.options[0].error / 2):.1%} of the range"
    return None


def _drawn(randomizer: Randomizer, name: str, sample: pa.Table) -> dict[str, Any]:
    """A column's shares: of its codes, of equal bins of a number, or of the squares of a map."""
    schema, column = randomizer.schema, randomizer.schema.columns[name]
    table = sample.select(list(column.table_columns(name)))
    # Of a number that is reported with others no more is known than its bins.
    if column.domain is None or (column.is_number and randomizer.joint is not None):
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
