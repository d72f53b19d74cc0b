"""Fit of the distribution of clean records to their reports, by the estimator that suits the release.

Tables whose columns are all reported as codes are fitted by **latent classes**, with the exact
likelihood. One column of points with at most three coordinates is fitted by a density on a **grid**,
also with the exact likelihood. Vectors and images reported by mechanism `candidates` are fitted by
**Gaussian classes**, whose likelihood has a closed form. All other releases are fitted by a
**generator** network and entropic optimal transport, by several processes if torchrun started them.

Privacy: a model is a function of the release alone, hence post-processing. It has the guarantee of the
release, however many models are fitted. The seed and the held-out reports need not be secret.

`Synthesizer` offers the same fit with scikit-learn's conventions.
"""

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
from privot.local.deconvolution import fit_density
from privot.local.model import LocalModel
from privot.local.releases import Releases, Reports
from privot.local.settings import FitSettings, Run, settings_with
from privot.models import Model, Sums
from privot.privacy import weakest
from privot.privacy.rounding import at_most, check_delta, exactly
from privot.randomizer.information import min_informative_reports
from privot.schema import Schema
from privot.training import FitMonitor, Progress

if TYPE_CHECKING:
    from privot.local.networks.steps import Loss
    from privot.local.waves.wave_model import Time, WaveModel


class FewReports(UserWarning):
    """Warning of too few reports, whose model reflects mostly the estimator's assumptions."""


# Optional settings that an estimator does not use.
_IGNORED = {
    "latent_classes": ("steps", "batch_size", "learning_rate"),
    "grid": ("batch_size", "learning_rate"),
}
# Imported on use, because these need PyTorch.
_SINGLE_RELEASE_ESTIMATORS = {
    "gaussian_classes": "privot.local.networks.gaussian_fit:fit_gaussians",
    "generator": "privot.local.networks.generator_fit:fit_generator",
}
_WAVES = "privot.local.waves.wave_model:fit_waves"


@overload
def fit(
    release: Reports | Sequence[Reports],
    settings: FitSettings | None = None,
    *,
    times: None = None,
    **keywords: Any,
) -> LocalModel: ...


@overload
def fit(
    release: Sequence[Reports],
    settings: FitSettings | None = None,
    *,
    times: "Sequence[Time]",
    **keywords: Any,
) -> "WaveModel": ...


@overload
def fit(release: Sums, settings: FitSettings | None = None, **keywords: Any) -> Model: ...


def fit(
    release: Reports | Sequence[Reports] | Sums,
    settings: FitSettings | None = None,
    *,
    times: "Sequence[Time] | None" = None,
    device: str = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    loss: "Loss | str | None" = None,
    **keywords: Any,
) -> "LocalModel | WaveModel | Model":
    """Learn the distribution of the clean records from their privatized reports.

    Arguments:
        release: A release; or its counts (`privot.count`), which give the same model of a map or table;
            or noisy sums; or a list of releases of a campaign that changed its randomizer, newest last,
            which are fitted together (`privot.local.releases`).
        settings: Settings of the fit; the defaults if None.
        times: Time of each release, a number or a date, in increasing order, for waves of a population
            that drifts. The result is then a `WaveModel` (`privot.local.fit_waves`).
        device: Device of a generator: `"auto"`, `"cpu"`, `"cuda"`.
        checkpoint: File for the state of the training, saved every half minute and on Ctrl-C.
        resume: Whether to continue from the checkpoint if it exists.
        progress: Callback with step, number of steps and loss, after each step or fit of classes.
        loss: Loss of a generator, in place of the settings': a name, or a function (`networks.steps`).
        **keywords: Fields of the settings: `seed=3`, `estimator="generator"`, `steps=2000`. The same
            seed gives the same model on the same machine.

    Raises:
        PrivotError: for releases or settings that cannot be used, or a checkpoint of another run.
        Interrupted: on Ctrl-C, after the checkpoint was saved; its `model` is the model so far.

    Warns:
        FewReports: if there are too few reports to learn from; `made_with` records it.
    """
    if isinstance(loss, str):
        keywords, loss = keywords | {"loss": loss}, None
    run = Run(device, None if checkpoint is None else Path(checkpoint), resume, progress, loss)
    settings = settings_with(settings, keywords)
    if isinstance(release, Sums):
        return _fit_sums(release, settings)
    if times is not None:
        if resume or checkpoint is not None or loss is not None:
            raise PrivotError("waves are fitted at once: leave out checkpoint, resume and loss")
        waves: WaveModel = load_object(_WAVES, "times")(release, times, settings, progress=progress)
        return waves
    releases = Releases.of(release)
    estimator: str = settings.estimator
    if estimator == "auto":
        estimator = "generator" if loss is not None else releases.best_estimator
    count, guarantees = len(releases), []
    for part in releases.parts:
        guarantees.append(part.guarantee)  # raises an error if a batch is too small
        check_delta(getattr(guarantees[-1], "delta", 0.0), len(part))
    weakest(*guarantees)  # raises an error if they cannot be compared
    needed = min_informative_reports(releases.newest.randomizer)
    model = _fit_by_estimator(releases, estimator, settings, run)
    return model if needed is None or count >= needed else _warn_of_few(model, count, needed)


def _fit_sums(release: Sums, settings: FitSettings) -> Model:
    """Learn from noisy sums; raise PrivotError for settings other than the seed."""
    if settings != FitSettings(seed=settings.seed):
        raise PrivotError("noisy sums have no setting but seed: leave out all others")
    return release.learn(settings.seed)


def _fit_by_estimator(
    releases: Releases, estimator: str, settings: FitSettings, run: Run
) -> LocalModel:
    """Fit by one estimator; raise PrivotError if it cannot use the releases or the settings."""
    size, count = settings.batch_size, len(releases)
    if size is not None and size > count:
        raise PrivotError(
            f"batch_size {size:,} is more than the release's {count:,} reports: give fewer"
        )
    if estimator == "generator" and releases.newest.randomizer.candidates:
        raise PrivotError(
            "estimator 'generator' cannot learn from candidates, as in this release: use 'auto'"
        )
    if estimator in _SINGLE_RELEASE_ESTIMATORS:
        release = releases.only(estimator)
        fit_release = load_object(_SINGLE_RELEASE_ESTIMATORS[estimator], f"estimator {estimator!r}")
        model: LocalModel = fit_release(release, settings, run)
        return model
    _require_all_used(estimator, settings, run)
    monitor = FitMonitor(settings.minutes, run.progress)
    if estimator == "latent_classes" and not releases.all_coded:
        raise PrivotError(
            "estimator 'latent_classes' needs every column reported as a code, and some are reported "
            "with noise: use estimator 'generator'"
        )
    with monitor.deferring():
        if estimator == "grid":
            model = fit_density(releases, settings.steps, monitor)
        else:
            model = fit_classes(releases, settings.seed, monitor)
    return monitor.finish(replace(model, made_with=model.made_with | monitor.facts()))


def _require_all_used(estimator: str, settings: FitSettings, run: Run) -> None:
    """Raise PrivotError for settings and options that the estimator would ignore."""
    given = [name for name in _IGNORED[estimator] if getattr(settings, name) is not None]
    given += ["loss"] if settings.loss != "auto" else []
    given += ["architecture"] if settings.architecture != "mlp" else []
    if given:
        raise PrivotError(
            f"{', '.join(given)} would be ignored: this release is fitted by estimator {estimator!r}; "
            "leave these settings out, or give estimator 'generator'"
        )
    if run.loss is not None:
        raise PrivotError("loss is a setting of generators: give estimator 'generator' or 'auto'")
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


def _warn_of_few(model: LocalModel, count: int, needed: int) -> LocalModel:
    """Warn that there are too few reports, and return the model with the warning in `made_with`."""
    few = "1 report is" if count == 1 else f"{count:,} reports are"
    text = (
        f"{few} no more informative than none, so the model is what the estimator assumes: collect "
        f"about {needed:,} reports or more; `privot plan` shows the errors to expect"
    )
    warnings.warn(text, FewReports, stacklevel=3)
    return replace(model, made_with=model.made_with | {"few_reports": text})


_PARAMETERS = ("schema", "epsilon", "settings", "seed")


class Synthesizer(Summarized):
    """Estimator with scikit-learn's interface, for records that each person privatizes.

    It follows scikit-learn's conventions without importing it: parameters are stored as given, `fit`
    returns the estimator, fitted attributes end with an underscore, and `clone` works.

    Arguments:
        schema: Schema of the records.
        epsilon: Largest ε of a release that `fit` accepts; no limit if None.
        settings: Settings of the fit; the defaults if None.
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
        limit = "any" if self.epsilon is None else f"at most {exactly(self.epsilon)}"
        return self.schema.summary() | {"epsilon": limit, "fitted": hasattr(self, "model_")}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Raises:
            PrivotError: for an unknown parameter.
        """
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise PrivotError(f"{name} is no parameter: use one of {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def fit(self, release: Reports, y: None = None) -> Self:
        """Learn from a release or its counts; scikit-learn's interface requires `y`, which is ignored.

        Raises:
            PrivotError: for raw records, or a release of another schema or a larger ε than `epsilon`.
        """
        Releases.of(release)
        if release.schema != self.schema:
            raise PrivotError(
                f"schema {self.schema!r} is not the release's, {release.schema!r}: give the one that "
                "the randomizer was calibrated for"
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
            PrivotError: before `fit`, or as `Model.sample`.
        """
        return self._fitted_model().sample(num_rows, seed, where)

    def save(self, path: str | Path) -> None:
        """Write the fitted model: see [`Model.save`][privot.models.Learned.save].

        Raises:
            PrivotError: before `fit`.
        """
        self._fitted_model().save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a model that `save` or `privot fit` wrote, as a fitted synthesizer.

        Parameters other than the schema have their defaults.

        Raises:
            PrivotError: if the folder is missing or damaged.
        """
        model = LocalModel.load(path)
        synthesizer = cls(model.schema)
        synthesizer.model_ = model
        return synthesizer

    def _fitted_model(self) -> LocalModel:
        if not hasattr(self, "model_"):
            raise PrivotError("the synthesizer is not fitted: call fit(release) first")
        return self.model_
