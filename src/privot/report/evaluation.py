"""The evaluation report: a model's samples against real records. Not private, and says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.evaluation import Comparison
from privot.local import Model
from privot.report.curves import draw_density, draw_loss, draw_shares
from privot.report.maps import Panel, draw_maps
from privot.report.pages import write_page
from privot.report.style import data_uri
from privot.schema import Bins
from privot.schema.values import encode_codes, encode_points

_MEASURES = {"W2": "2-Wasserstein, sides scaled to [−1, 1]", "TV": "total variation"}


def write_evaluation_report(
    path: Path, model: Model, synthetic: pa.Table, real: pa.Table, rows: list[Comparison]
) -> None:
    """Write the page; `rows` come from [`compare`][privot.evaluation.compare]."""
    schema = model.schema
    marginals, maps = [], []
    for name in schema.columns:
        column = schema.coded.get(name)
        if column is not None and (column.nullable or not isinstance(column.alphabet, Bins)):
            shares = [
                np.bincount(encode_codes(column, name, table), minlength=column.alphabet.size)
                / table.num_rows
                for table in (real, synthetic)
            ]
            marginals.append(data_uri(draw_shares(name, column.labels, *shares)))
            continue
        continuous = schema.point_column(name)
        points = [encode_points(continuous, name, table) for table in (real, synthetic)]
        parts = continuous.table_columns(name)
        for j, part in enumerate(parts[:16]):
            marginals.append(data_uri(draw_density(part, points[0][:, j], points[1][:, j])))
        if len(parts) == 2:
            both = np.concatenate(points)
            low, high = both.min(axis=0), both.max(axis=0)
            panels = [
                Panel("Real", name, points[0]),
                Panel("Synthetic", "samples of the model", points[1]),
            ]
            bounds = ((low[0], high[0]), (low[1], high[1]))
            geographic = "latitude" in parts[1].lower()
            maps.append(data_uri(draw_maps(panels, bounds, geographic=geographic)))
    write_page(
        path,
        "evaluation.html",
        {
            "num_reports": model.made_with["num_reports"],
            "num_real": real.num_rows,
            "unit": schema.unit,
            "promise": model.guarantee.describe(),
            "guarantee": str(model.guarantee),
            "rows": rows,
            "measures": _MEASURES,
            "maps": maps,
            "marginals": marginals,
            "loss": data_uri(draw_loss(model.history)),
        },
    )
