"""
Labeled digits at ε = 10
========================

A curator is trusted with 20 000 images and their labels, and publishes a model of them. **Noise
goes on a few sums of all images, so it is small beside what they tell**, and every draw of the
model keeps the promise to each person. The digits are made up: shapes that come with scikit-learn,
turned and stretched by chance.
"""

import matplotlib.pyplot as plt
import numpy as np

from privot.central import fit
from privot.demo.digits import draw_digits
from privot.schema import Schema

plt.style.use(["privot.report.paper", "privot.report.night"])

# %%
# An image is twenty by twenty pixels, and its label is one of ten.

schema = Schema.from_dict(
    {
        "columns": {
            "image": {"kind": "array", "shape": [20, 20], "bounds": [0, 255]},
            "label": {"kind": "categorical", "categories": [str(digit) for digit in range(10)]},
        }
    }
)
digits = draw_digits(20_000, seed=0)
people = {"image": digits.x_train, "label": digits.y_train.astype(str)}

# %%
# ε = 10 and δ = 10⁻⁵ cover all sums together, of data sets in which one record is another.

model = fit(people, schema, epsilon=10.0, delta=1e-5)
print(model.guarantee)
drawn = model.sample(2_000, seed=1)

# %%
# The last row has less noise than the one above, for it averages some two hundred draws of each
# label.

images = np.array(drawn["image"].to_pylist()).reshape(-1, 20, 20)
labels = drawn["label"].to_numpy(zero_copy_only=False)
of_label = [images[labels == str(digit)] for digit in range(10)]
rows = {
    "what people write": [digits.x_train[digits.y_train == digit][0] for digit in range(10)],
    "what the model draws": [images[0] for images in of_label],
    "what it draws on average": [images.mean(axis=0) for images in of_label],
}
figure, axes = plt.subplots(3, 1, figsize=(5.2, 2.7), layout="constrained")
for axis, (title, row) in zip(axes, rows.items(), strict=True):
    axis.imshow(np.hstack([np.pad(image, 1) for image in row]), cmap="gray", vmin=0, vmax=255)
    axis.set_title(title, fontsize=10)
    axis.set_axis_off()
plt.show()
