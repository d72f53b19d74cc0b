"""Learning the distribution of the clean records from their reports, by the estimator for the release.

Tables whose columns are all reported as codes are fitted by **latent classes**, whose likelihood is
exact and needs no batches; the mixture of split reports is raked to the columns' own marginals, which
are unbiased. One column of points of few coordinates is fitted by a density on a **grid**, whose
likelihood is exact as well; candidates of vectors and images by **Gaussian classes**, whose likelihood
has a closed form; and anything else by a **generator** and entropic optimal transport, by several
processes together where torchrun started them.

Privacy: a function of the release alone, hence post-processing: the guarantee of the release is the
guarantee of the model, whatever is fitted, however long, however often. The seed is no secret; neither
are held-out reports, which are as private as the others.

`Synthesizer` is the same fit by scikit-learn's conventions: parameters first, `fit`, then `sample`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import pyarrow as pa

from privot.core.errors import PrivotError, load_object
from privot.core.processes import started_by_torchrun
from privot.core.summary import Summarized
from privot.local.classes.class_fit import fit_classes
from privot.local.grid.grid_fit import fit_density
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.local.settings import FitSettings, Run, settings_with
from privot.privacy import weakest
from privot.privacy.rounding import at_most, check_delta, exactly
from privot.randomizer import Release
from privot.randomizer.information import min_informative_reports
from privot.schema import Schema
from privot.training import FitMonitor, Progress

if TYPE_CHECKING:
    from privot.local.networks.steps import Loss
    from privot.local.waves.wave_model import Time, WaveModel


class FewReports(UserWarning):
    """Warning that a model of so few reports reflects little but the estimator's assumptions."""


_IGNORED = {
    "latent_classes": ("steps", "batch_size", "learning_rate"),
    "grid": ("batch_size", "learning_rate"),
}
# Imported on use: only these need PyTorch.
_SINGLE_RELEASE_ESTIMATORS = {
    "gaussian_classes": "privot.local.networks.gaussian_fit:fit_gaussians",
    "generator": "privot.local.networks.generator_fit:fit_generator",
}
_WAVES = "privot.local.waves.wave_model:fit_waves"


@overload
def fit(
    release: Release | Sequence[Release],
    settings: FitSettings | None = None,
    *,
    times: None = None,
    **keywords: Any,
) -> LocalModel: ...


@overload
def fit(
    release: Sequence[Release],
    settings: FitSettings | None = None,
    *,
    times: Sequence[Time],
    **keywords: Any,
) -> WaveModel: ...


def fit(
    release: Release | Sequence[Release],
    settings: FitSettings | None = None,
    *,
    times: Sequence[Time] | None = None,
    device: str = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    loss: Loss | str | None = None,
    **keywords: Any,
) -> LocalModel | WaveModel:
    """Learn the distribution of the clean records from their privatized reports.

    Arguments:
        release: The reports; nothing else is used. Several releases of a campaign that moved to other
            randomizers are fitted together (`privot.local.releases`), the newest given last.
        settings: Settings of the fit; the defaults otherwise.
        times: Times of waves of a population that drifts: a number or a date for each release, in
            order. The model is then a `WaveModel` (`privot.local.fit_waves`).
        device: Device of a generator: `"auto"`, `"cpu"`, `"cuda"`.
        checkpoint: File for the state of a generator's run, saved every half minute and on Ctrl-C.
        resume: Continue from the checkpoint, if there is one.
        progress: Callback with the step, the number of steps, and the loss, after every step of
            training, or every setting and fit of latent classes.
        loss: Loss of a generator, in place of the settings' one: a function of a step
            (`privot.local.networks.steps`), or the name of a loss.
        **keywords: Fields of the settings: `seed=3`, `estimator="generator"`, `steps=2000`. Same seed,
            same machine, same model.

    Raises:
        PrivotError: for settings that cannot be used, or a checkpoint of another run.
        Interrupted: on Ctrl-C, after the checkpoint was saved; its `model` is what was learned so far.

    Warns:
        FewReports: if there are too few reports to learn anything (a public number); the model's
            `made_with` records it as well.
    """
    if isinstance(loss, str):
        keywords, loss = keywords | {"loss": loss}, None
    run = Run(device, None if checkpoint is None else Path(checkpoint), resume, progress, loss)
    settings = settings_with(settings, keywords)
    if times is not None:
        if resume or checkpoint is not None or loss is not None:
            raise PrivotError("waves are fitted at once: leave out checkpoint, resume and loss")
        waves: WaveModel = load_object(_WAVES, "times")(release, times, settings, progress=progress)
        return waves
    releases = Releases.of(release)
    estimator: str = settings.estimator
    if estimator == "auto":
        estimator = "generator" if loss is not None else releases.best_estimator
    count = len(releases)
    for part in releases.parts:
        check_delta(part.randomizer.delta, len(part))
    _ = weakest(*(part.guarantee for part in releases.parts))  # refuses batches that are too small
    needed = min_informative_reports(releases.newest.randomizer)
    model = _fitted(releases, estimator, settings, run)
    return model if needed is None or count >= needed else _marked_as_few(model, count, needed)


def _fitted(releases: Releases, estimator: str, settings: FitSettings, run: Run) -> LocalModel:
    """Fit by one estimator, if it knows the releases and the settings."""
    size, count = settings.batch_size, len(releases)
    if size is not None and size > count:
        raise PrivotError(
            f"batch_size {size:,} is more than the release's {count:,} reports: give fewer"
        )
    if estimator == "generator" and releases.newest.randomizer.candidates:
        raise PrivotError(
            "estimator 'generator' knows no candidates, which this release holds: use 'auto'"
        )
    if (place := _SINGLE_RELEASE_ESTIMATORS.get(estimator)) is not None:
        release = releases.only(estimator)
        return load_object(place, f"estimator {estimator!r}")(release, settings, run)
    _refuse_ignored(estimator, settings, run)
    monitor = FitMonitor(settings.minutes, run.progress)
    if estimator == "latent_classes" and not releases.all_coded:
        raise PrivotError(
            "estimator 'latent_classes' needs every column reported as a code, some have noise "
            "added: use estimator 'generator'"
        )
    with monitor.deferring():
        if estimator == "grid":
            model = fit_density(releases, settings.steps, monitor)
        else:
            model = fit_classes(releases, settings.seed, monitor)
    return monitor.finish(replace(model, made_with=model.made_with | monitor.facts()))


def _refuse_ignored(estimator: str, settings: FitSettings, run: Run) -> None:
    """Refuse settings that only a generator uses."""
    given = [name for name in _IGNORED[estimator] if getattr(settings, name) is not None]
    given += ["loss"] if settings.loss != "auto" else []
    given += ["architecture"] if settings.architecture != "mlp" else []
    if given:
        raise PrivotError(
            f"{', '.join(given)} would be ignored: this release is fitted by estimator {estimator!r}; "
            "leave out what is a generator's, or give estimator 'generator'"
        )
    if run.loss is not None:
        raise PrivotError("loss is a generator's: give estimator 'generator' or 'auto'")
    if run.resume and run.checkpoint is not None and run.checkpoint.exists():
        raise PrivotError(
            f"checkpoint {run.checkpoint} is of a generator, and this fit is by estimator "
            f"{estimator!r}, perhaps of another release: resume with the same arguments, or remove it"
        )
    if started_by_torchrun():
        raise PrivotError(
            f"estimator {estimator!r} counts the reports in one process: start it without torchrun, "
            "or use estimator 'generator'"
        )


def _marked_as_few(model: LocalModel, count: int, needed: int) -> LocalModel:
    """Warn, and record in the model, that there are too few reports to learn anything."""
    few = "1 report is" if count == 1 else f"{count:,} reports are"
    text = (
        f"{few} no more informative than none, so the model is what the estimator assumes: collect "
        f"more; from about {needed:,} reports on they are informative, `privot plan` says how much"
    )
    warnings.warn(text, FewReports, stacklevel=3)
    return replace(model, made_with=model.made_with | {"few_reports": text})


_PARAMETERS = ("schema", "epsilon", "settings", "seed")


class Synthesizer(Summarized):
    """Estimator with scikit-learn's interface, for records that each person privatizes.

    Follows scikit-learn's conventions without needing it: parameters are stored as given, `fit` returns
    the estimator itself, fitted attributes end with an underscore, and `clone` works.

    Arguments:
        schema: Schema of the records.
        epsilon: Largest ε of a release that `fit` accepts, if there is to be a limit.
        settings: Settings of the fit; the defaults otherwise.
        seed: Seed of the fit.

    Attributes:
        model_: The fitted [`LocalModel`][privot.local.model.LocalModel].

    Examples:
        >>> from privot import Randomizer, Schema
        >>> schema = Schema.from_toml('''
        ... [columns.color]
        ... kind = "categorical"
        ... categories = ["red", "blue"]
        ... ''')
        >>> colors = {"color": ["red", "blue"] * 200}
        >>> release = Randomizer.calibrate(schema, epsilon=2.0).privatize(colors)  # on the devices
        >>> Synthesizer(schema, epsilon=2.0).fit(release).sample(3).shape
        (3, 1)
    """

    model_: LocalModel

    def __init__(
        self,
        schema: Schema,
        epsilon: float | None = None,
        settings: FitSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.schema, self.epsilon, self.settings, self.seed = schema, epsilon, settings, seed

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        limit = "any" if self.epsilon is None else f"at most {exactly(self.epsilon)}"
        return self.schema.summary() | {"epsilon": limit, "fitted": hasattr(self, "model_")}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Raises:
            PrivotError: for a name that is no parameter.
        """
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise PrivotError(f"{name} is no parameter: use one of {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def fit(self, release: Release, y: None = None) -> Self:
        """Learn from a release; `y` is ignored, as scikit-learn's interface requires it.

        Raises:
            PrivotError: for raw records, a release of another schema, or of more than `epsilon`.
        """
        Releases.of(release)
        if release.schema != self.schema:
            raise PrivotError(
                f"schema {self.schema} is not the release's, {release.schema}: give the one that the "
                "randomizer was calibrated for"
            )
        spent = release.guarantee.epsilon
        if self.epsilon is not None and spent > self.epsilon:
            raise PrivotError(
                f"epsilon {exactly(self.epsilon)} is less than the release's {at_most(spent)}: "
                "calibrate the randomizer to it, or allow more"
            )
        self.model_ = fit(release, self.settings, seed=self.seed)
        return self

    def sample(
        self, num_rows: int, seed: int | None = None, where: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """Draw synthetic records: see [`Model.sample`][privot.models.Model.sample].

        Raises:
            PrivotError: before `fit`, and as the model's own.
        """
        return self._fitted().sample(num_rows, seed, where)

    def save(self, path: str | Path) -> None:
        """Write the fitted model's folder: see [`Model.save`][privot.models.Learned.save].

        Raises:
            PrivotError: before `fit`.
        """
        self._fitted().save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a fitted synthesizer that `save` or `privot fit` wrote; its parameters are the defaults.

        Raises:
            PrivotError: if there is no such folder, or it is damaged.
        """
        model = LocalModel.load(path)
        synthesizer = cls(model.schema)
        synthesizer.model_ = model
        return synthesizer

    def _fitted(self) -> LocalModel:
        if not hasattr(self, "model_"):
            raise PrivotError("the synthesizer is not fitted: call fit(release) first")
        return self.model_
