"""Images as a curator declares them: a schema of a column `image` and, of several classes, `label`."""

import numpy as np
import pyarrow as pa

from privot.central.records import records_of
from privot.schema import Schema
from privot.schema.columns.array import tensor_array


def image_schema(shape, num_labels=1, unit="person"):
    """Height, width and, if any, channels; pixels of 0 to 1."""
    columns = {"image": {"kind": "array", "shape": list(shape), "bounds": [0, 1]}}
    if num_labels > 1:
        categories = [str(label) for label in range(num_labels)]
        columns["label"] = {"kind": "categorical", "categories": categories}
    return Schema.from_dict({"unit": unit, "columns": columns})


def image_records(shape, *, unit="person", num_labels=1, **features):
    return records_of(image_schema(shape, num_labels, unit), **features)


def image_table(images, labels=None):
    columns = {"image": tensor_array(np.asarray(images, np.float32))}
    if labels is not None:
        columns["label"] = pa.array([str(int(label)) for label in labels])
    return pa.table(columns)
