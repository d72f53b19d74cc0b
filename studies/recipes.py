"""All recipes: a name is the module below `studies`, and stands beside what the recipe measures.

A recipe's module has two functions: `options(parser)` declares what its command takes, `run(chosen)`
does the work with what was chosen. It writes results, and asserts nothing.
"""

from __future__ import annotations

import argparse
from importlib import import_module

RECIPES = {
    "common.page_pictures": "Pictures of the pages whose tables come from privot_benchmarks.",
    "reports.windows": "Radii and shapes of windows, on public synthetic people.",
    "reports.priors": "Priors on the logarithm of a density, on public synthetic people.",
    "entropic.manifolds": "Curves in the plane from noisy points, entropic beside unregularized.",
    "entropic.manifold_losses": "The same curves, small: three losses side by side.",
    "entropic.few_points": "Laws whose noisy reports nobody can tell from the half circle's.",
    "entropic.denoising": "Generators beside denoisers, on the same privatized images.",
    "entropic.noise_sweep": "Distance of learned digits to clean ones as noise grows, four losses.",
    "entropic.size_sweep": "Distance of learned digits to clean ones as people grow many.",
    "entropic.higher_privacy": "Digits and clothes from images in small balls, at the papers' epsilons.",
    "entropic.noisy_wasserstein": "Entropic beside noisy 1-Wasserstein generators of images.",
    "entropic.theorems": "The theorems' bounds beside what happens, without networks.",
    "entropic.mini_batches": "What transport between batches learns of Gaussians, by size and weight.",
    "entropic.mini_batches_page": "Writes docs/results/mini_batches.md and its picture from its rows.",
    "entropic.page": "Writes docs/results/entropic.md from its rows.",
    "images.recipe": "What decides the quality of images learned from their reports, at one epsilon.",
    "images.candidates": "Labeled images under pure local epsilon, judged by a classifier of samples.",
    "images.page": "Writes docs/results/images.md from its rows.",
    "reports.points": "Places and numbers learned from reports of several mechanisms, at the same ε.",
    "reports.nearest": "The nearest rivals for maps and numbers, as published and at their best.",
    "reports.exponents": "Errors against the number of people, and floors that no method undercuts.",
    "reports.nearest_picture": "The picture of docs/results/nearest_rivals.md, from its rows.",
    "reports.designs": "How far windows are from the best sets of places, by a convex program.",
    "reports.plans": "Errors that plans predicted, beside those that were measured.",
    "promise.places": "Maps at one ε where nobody, a shuffler, two servers or a curator is trusted.",
    "promise.forecasts": "Errors that plans predict for each place of trust, beside what is realized.",
    "promise.images": "Labeled images at one ε, by who is trusted.",
    "promise.page": "Writes docs/results/promise.md and its picture from its rows.",
    "tables.adult": "Adult from local reports: marginals, pairs and predictions, beside rivals.",
    "tables.bayesian_network": "A known population of ten columns: errors as people grow many.",
    "tables.contradicted": "How often a check contradicts models that are right, and wrong ones.",
    "tables.coverage": "Whether intervals of reports alone hold, on known populations.",
    "tables.numbers": "Numbers without declared bins: shapes and correlations of three tables.",
    "tables.pilot": "Two phases: typical numbers by the first people's model for the others.",
    "tables.words": "Words that nobody listed: how many of the frequent ones a pilot finds.",
    "tables.weighed": "Two phases: pairs weighed by the first people's model for the others.",
    "tables.many_reports": "Seconds and memory of a fit, from thousands of reports to millions.",
    "tables.central": "Adult from a curator who sees every record, beside local reports.",
    "tables.never_worse": "Whether a fit is ever worse than independence: tables, ε, people.",
    "tables.predicted": "What a plan predicts of a fit's error, beside what fits err by.",
    "tables.telling": "What a check by reports says of classifiers, beside what they score on people.",
    "tables.verdicts": "Verdicts by reports alone beside verdicts by records: twenty tables.",
    "tables.wide_bounds": "Numbers in bounds six times too wide: typical numbers, a pilot, the verdict.",
    "tables.learned_spread": "How much of the truth's spread each loss learns, by batch size.",
    "waves.rehearsed": "What a rehearsal predicts of a fit's error, beside what fits err by.",
    "waves.page": "Writes docs/results/waves.md from its rows.",
    "waves.year": "A year of weekly waves over real places, and the pictures of waves.",
    "waves.measures": "What history is worth: a share that grows, and a wave more.",
    "waves.places": "What history is worth where places drift, with maps.",
    "vectors.unit_means": "The mean of unit vectors: candidates beside PrivUnit, what bias is left.",
    "schema_drafts.draft": "Drafts of schemas from a JSON Schema, a pydantic model, a pandera schema.",
    "sliced.images": "Images from noisy sums, judged by classifiers trained on them.",
    "sliced.classifier": "Classifiers of images by noisy sums, judged by test images.",
    "sliced.components": "The same mixtures with covariances of each component, judged alike.",
    "sliced.sheets": "Sheets of images that methods draw at one epsilon, beside real ones.",
    "sliced.frechet": "Distances of drawn images to real ones.",
    "sliced.rivals": "Other private generators of images, under the same protocol.",
    "sliced.adaptation": "Accuracy on a private target from a labeled source, by nine methods.",
    "sliced.toy": "Distances under noise on both sides, between Gaussians.",
    "sliced.lengths": "The law of a projected difference's length, beside the published bounds.",
    "sliced.faces": "Faces of 64 × 64 × 3 pixels through the published slices: for a GPU.",
    "sliced.gs_wgan": "What GS-WGAN's published code spends, counted step by step.",
    "sliced.vectors": "Labeled vectors by noisy sums, judged by classifiers that are trained on draws.",
    "sliced.timing": "Processor time of a release of noisy slices.",
    "sliced.page": "Writes docs/results/central.md from its rows.",
    "integral.clients": "Divergence of a hundred clients' mixtures, beside the optimum.",
    "integral.curves": "Likelihood and coverage against epsilon, on a ring, a line, at random.",
    "integral.bernstein": "The Bernstein mechanism with the best settings that a search finds.",
    "integral.bounds": "What each round of boosting is proven to gain, beside what it gains.",
    "integral.panels": "Pictures of densities: the truth, the reference, methods at several epsilons.",
    "integral.dpgan": "DPGAN on the ring of eight, by the same measures.",
    "integral.audit": "The largest log ratio between neighbors, searched for and audited.",
    "integral.accidents": "Places of road accidents: what a single draw may reveal, and how near it is.",
    "integral.page": "Writes docs/results/integral.md and its pictures from its rows.",
}


def parser_of(name: str) -> argparse.ArgumentParser:
    """The command line of one recipe; what it parses has the recipe's `run`."""
    recipe = import_module(f"studies.{name}")
    parser = argparse.ArgumentParser(prog=f"python -m studies {name}", description=RECIPES[name])
    recipe.options(parser)
    parser.set_defaults(run=recipe.run)
    return parser


def listing() -> str:
    """Every recipe in a line."""
    width = max(map(len, RECIPES))
    return "\n".join(f"{name:{width}}  {sentence}" for name, sentence in RECIPES.items())
