"""Opened sums: what is refused, and what is learned from them."""

import json

import numpy as np
import pytest
from scipy.stats import chi2

import privot
from aggregated.people import IMAGES, encoder, images, schema, servers, table, whole
from aggregated.test_merging import merge_and_learn
from privot.aggregated import AggregatedModel, Encoder, Server, SumRelease, fit, open_sums, server
from privot.central import SumSettings
from privot.core.errors import PrivotError
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.privacy import DistributedDP, gaussian_epsilon
from privot.privacy.guarantees import guarantee_from_dict
from privot.schema.columns.array import tensor_values


def opened(rule, data, count):
    """A release with the noise of both servers, without shares."""
    sums = whole(rule, data)
    for _ in range(2):
        sums = sums + sample_rounded_gaussian(rule.length, rule.stddev)
    return SumRelease(rule, {f"batch of {count}": count}, sums)


def test_both_files_are_of_the_same_reports_and_encoder(tmp_path):
    rule = encoder()
    leader, helper = servers(tmp_path, rule, table(250))
    ids = sorted(leader.ids())
    first, second = leader.release(ids), helper.release(ids[:249])
    with pytest.raises(PrivotError, match=r"differ in batch.*sums of the same reports"):
        open_sums(first, second)
    with pytest.raises(PrivotError, match="is the helper's: give the leader's file, then"):
        open_sums(second, first)
    (tmp_path / "other").mkdir()
    _, other = servers(tmp_path / "other", encoder(201), table(250))
    with pytest.raises(PrivotError, match="differ in encoder"):
        open_sums(first, other.release(other.ids()))
    with pytest.raises(PrivotError, match="cannot be read"):
        open_sums(first, tmp_path / "none.json")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"reports":200', '"reports":201'),
        lambda text: text[:-9],
        lambda text: "",
        lambda text: "{}",
        lambda text: server.sealed({}),
        lambda text: server.sealed(json.loads(text.splitlines()[0]) | {"sums": 3}),
        lambda text: server.sealed(
            {"role": "leader", "sums": json.loads(text.splitlines()[0])["sums"]}
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damage):
    leader, helper = servers(tmp_path, encoder(), table(200))
    ids = leader.ids()
    first, second = leader.release(ids), helper.release(ids)
    first.write_text(damage(first.read_text()))
    with pytest.raises(PrivotError, match="holds no server's sums"):
        open_sums(first, second)


def test_sums_of_another_length_are_refused(tmp_path):
    leader, helper = servers(tmp_path, encoder(), table(200))
    ids = leader.ids()
    first, second = leader.release(ids), helper.release(ids)
    fields = json.loads(first.read_text().splitlines()[0])
    first.write_text(server.sealed(fields | {"sums": fields["sums"][:96]}))
    with pytest.raises(PrivotError, match=r"must have .* sums each"):
        open_sums(first, second)


def test_files_cannot_state_a_guarantee_of_their_own(tmp_path):
    """Who says that fewer people are enough, or that the noise is less, changes the encoder."""
    leader, helper = servers(tmp_path, encoder(), table(200))
    ids, files = leader.ids(), []
    for each in (leader, helper):
        path = each.release(ids)
        fields = json.loads(path.read_text().splitlines()[0])
        lighter = json.loads(fields["encoder"]) | {"stddev": 1.0}
        fields["encoder"] = json.dumps(lighter, separators=(",", ":"))
        path.write_text(server.sealed(fields))
        files.append(path)
    with pytest.raises(PrivotError, match="the promise is"):
        open_sums(*files)


def test_the_guarantee_is_computed_of_the_noise_of_one_and_of_how_many_came():
    rule = encoder()
    release = opened(rule, table(300), 300)
    from_noise = gaussian_epsilon(rule.stddev, np.sqrt(2) * 29 * rule.query.radius**2, 1e-6)
    assert release.guarantee.epsilon == pytest.approx(from_noise, rel=1e-9)
    assert release.guarantee.people == 300
    assert release.guarantee.floor is None
    assert "else nothing" in str(release.guarantee)
    with pytest.raises(PrivotError, match="wait for more"):
        SumRelease(rule, {"few": 199}, release.sums)


def test_sums_are_learned_as_a_curators_are():
    rule, people = Encoder.calibrate(schema(20_000, 4.0)), table(20_000)
    model = fit(opened(rule, people, 20_000), SumSettings(classes=40))
    drawn = model.sample(20_000, seed=0)
    sick = drawn.column("sick").to_numpy(zero_copy_only=False)
    age = drawn.column("age").to_numpy()
    assert abs(sick.mean() - np.mean(people["sick"])) < 0.02
    assert np.mean((age > 39) == sick) > 0.9
    assert str(model.guarantee).startswith("ε = 4, δ = 1e-06 if one of the two servers is honest")


def test_a_model_is_read_as_it_was_written(tmp_path):
    rule = encoder(2000)
    model = fit(opened(rule, table(2000), 2000), SumSettings(classes=2))
    model.save(tmp_path / "model")
    again = privot.load(tmp_path / "model")
    assert isinstance(again, AggregatedModel)
    assert again.sample(9, seed=1, where={"sick": True}).equals(
        model.sample(9, seed=1, where={"sick": True})
    )
    assert again.guarantee == model.guarantee
    assert again.made_with["estimator"] == "classes"
    stated = json.loads((tmp_path / "model" / "model.json").read_text())
    assert isinstance(guarantee_from_dict(stated["guarantee"]), DistributedDP)
    assert "nothing is promised then" in stated["in_words"]


def test_dropped_shares_make_the_batch_smaller(tmp_path):
    rule = encoder()
    leader, helper = (Server.create(tmp_path / r, rule, r) for r in ("leader", "helper"))
    shares = [*rule.encode_table(table(230))]
    leader.accept(*[mine for mine, _ in shares[:220]])
    helper.accept(*[mine for _, mine in shares[10:]])
    both = leader.ids() & helper.ids()
    release = open_sums(leader.release(both), helper.release(both))
    assert len(release) == release.guarantee.people == 210
    assert len(leader.ids()) == len(helper.ids()) == 10


def test_places_are_learned_too():
    home = {"home": {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}}
    rule, rng = Encoder.calibrate(schema(5000, 1.0, home)), np.random.default_rng(0)
    people = {"x": rng.beta(2, 5, 6000), "y": rng.beta(5, 2, 6000)}
    assert len(rule.encode({"x": 0.5, "y": 0.5})[0]) == 49 + 8 * rule.length
    model = fit(opened(rule, people, 6000))
    drawn = model.sample(6000, seed=0)
    assert abs(drawn.column("x").to_numpy().mean() - people["x"].mean()) < 0.02
    assert abs(drawn.column("y").to_numpy().mean() - people["y"].mean()) < 0.02
    assert Encoder.from_json(rule.to_json()) == rule
    assert model.guarantee.people == 6000


def test_images_are_learned_through_both_servers(tmp_path):
    rule, data = Encoder.calibrate(schema(300, 20.0, IMAGES)), images(300)
    one = rule.encode({name: values[0] for name, values in data.items()})
    assert [len(share) for share in one] == [49 + 8 * rule.length, 81]
    leader, helper = servers(tmp_path, rule, data)
    both = leader.ids() & helper.ids()
    release = open_sums(leader.release(both), helper.release(both))
    apart = (release.sums - whole(rule, data)) / release.stddev
    # χ² of its length; a false alarm in fewer than one run in 10⁶
    limits = chi2.isf([1 - 4e-7, 4e-7], rule.length)
    assert limits[0] < (apart**2).sum() < limits[1]
    model = fit(release)
    model.save(tmp_path / "model")
    again = privot.load(tmp_path / "model")
    assert again.sample(9, seed=1).equals(model.sample(9, seed=1))
    assert again.guarantee == release.guarantee


def test_images_of_curators_merge():
    """Noise that is a tenth off is 7 deviations off, in 2 211 numbers; 4.9 are allowed."""
    merge_and_learn([images(300, n) for n in range(2)], 20.0, IMAGES)


def test_images_of_each_label_have_its_mean_and_spread():
    """By 40 runs: share .253 ± .007; means 100 ± .8 and 21 ± .5; deviations 14.6 ± .9 and 19.1 ± .9.

    Limits are 6.5 or more deviations away: a false alarm in fewer than one run in 10⁸, if Gaussian."""
    rule, data = Encoder.calibrate(schema(6000, 4.0, IMAGES)), images(6000)
    model = fit(opened(rule, data, 6000))
    drawn = model.sample(4000, seed=0)
    pixels, left = tensor_values(drawn["image"]), np.array(drawn["side"].to_pylist()) == "left"
    assert left.mean() == pytest.approx(0.25, abs=0.055)
    sides = ((left, np.s_[:, :, :4], np.s_[:, :, 4:]), (~left, np.s_[:, :4], np.s_[:, 4:]))
    for own, bright, dark in sides:
        assert pixels[own][bright].mean() == pytest.approx(100, abs=7)
        assert pixels[own][dark].mean() == pytest.approx(21, abs=5)
        assert 8 < pixels[own][bright].mean(axis=(1, 2)).std() < 26


def test_settings_of_what_was_summed_already_are_refused():
    rule = Encoder.calibrate(schema(2000, 8.0, IMAGES))
    release = opened(rule, images(2000), 2000)
    assert fit(release, SumSettings(seed=3)).made_with["seed"] == 3
    for settings in (SumSettings(low_pass=3), SumSettings(norm=0.4), SumSettings(components=2)):
        with pytest.raises(PrivotError, match="devices have summed by the default ones"):
            fit(release, settings)


def test_noise_that_drowns_an_images_label_is_refused_with_how_many_are_enough():
    with pytest.raises(PrivotError, match=r"noise of .* on every pixel.* give [\d,]+ im") as found:
        Encoder.calibrate(schema(50, 0.5, IMAGES))
    enough = int(str(found.value).split("give ")[1].split(" images")[0].replace(",", ""))
    assert Encoder.calibrate(schema(enough, 0.5, IMAGES)).people == enough
