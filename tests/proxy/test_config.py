"""Settings: written and read back, hashed by content, and refused with words that help."""

from __future__ import annotations

import pytest

from replay.proxy import ConfigError, Defect, Fault, ProxyConfig, Ramp
from replay.proxy.ramps import ramps_ended
from replay.proxy.training import Training

RICH = ProxyConfig(seed=3).replace(
    data__defects=(Defect(kind="random", first=2, last=3),),
    model__embedding_grad_ramp=Ramp(before=0, after=1, start=5),
    faults=(Fault(kind="optimizer_lost", step=4),),
)


def test_json_and_back() -> None:
    assert ProxyConfig.from_json(RICH.to_json()) == RICH
    assert ProxyConfig.from_json(RICH.to_json()).to_json() == RICH.to_json()


def test_the_hash_is_of_the_content() -> None:
    assert RICH.content_hash() == ProxyConfig.from_json(RICH.to_json()).content_hash()
    assert RICH.content_hash() != RICH.replace(seed=4).content_hash()
    assert ProxyConfig().replace(optimizer__weight_decay=1).content_hash() == (
        ProxyConfig().replace(optimizer__weight_decay=1.0).content_hash()
    )


def test_fields_left_out_take_their_defaults() -> None:
    assert ProxyConfig.from_dict({"model": {"width": 64}}).model.width == 64
    assert ProxyConfig.from_dict({}) == ProxyConfig()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"optimizer": {"beta3": 0.9}}, r"no setting optimizer\.beta3; did you mean optimizer\.beta2"),
        ({"model": {"activation": "gellu"}}, "did you mean 'gelu'"),
        ({"model": {"width": 30}}, "not a multiple of heads"),
        ({"model": {"width": "wide"}}, "model.width: int is needed"),
        ({"steps": True}, "steps: int is needed"),
        ({"optimizer": {"beta2": 1.0}}, "below 1"),
        ({"optimizer": {"weight_decay": float("nan")}}, "zero or a positive number"),
        ({"data": {"defects": [{"kind": "random", "first": 3, "last": 2}]}}, "lies behind the last"),
        ({"data": {"source": "corpus"}}, "needs data.corpus"),
        ({"schedule": {"name": "cosine"}}, "needs decay_end"),
        ({"model": {"context": 15}}, "must be even"),
        ({"data": {"second_source": "reverse"}}, "go together"),
        ({"model": 3}, "^model: a mapping of settings is needed, not 3"),
        ({"faults": [{"kind": "weight_bit", "step": 1}]}, "needs a parameter"),
        ({"faults": [{"kind": "weight_bit"}]}, r"^faults\[0\]: step must be given"),
        (
            {"model": {"position_init": "sinusoidal", "width": 27, "heads": 1}},
            "position_init 'sinusoidal' needs an even w",
        ),
        ({"model": {"positions": "sinusoidal", "width": 27, "heads": 1}}, "positions 'sinusoidal' needs an even width"),
        ({"model": {"positions": "rope", "width": 6, "heads": 2}}, "even head width, not 3"),
        (
            {"model": {"residual_init": "scaled", "norm_placement": "deepnorm"}},
            "'scaled' does nothing under .*'deepnorm'",
        ),
        ({"model": {"residual_init": "scaled", "norm_placement": "glm_deepnorm"}}, "set it to 'plain'"),
        ({"model": {"hidden": -4}}, "model.hidden must lie between"),
        ({"model": {"kv_heads": 8}}, "model.kv_heads must lie between 0 and 4"),
        ({"model": {"width": 2**40}}, "model.width must lie between"),
        ({"model": {"width": 2**14, "depth": 2**10}}, "parameters; the proxy takes at most"),
        ({"model": {"context": 20000}, "data": {"batch_size": 4096}}, "a step would hold some"),
        ({"model": {"context": 4096, "heads": 16}, "data": {"batch_size": 1}}, "a step would hold some"),
        ({"model": {"z_loss": 10**400}}, "model.z_loss: a number within 1e38 of 0"),
        ({"model": {"embedding_grad_ramp": {"before": float("inf"), "after": 1, "start": 0}}}, "ramp's before"),
        ({"model": {"embedding_grad_ramp": {"before": -1, "after": 1, "start": 0}}}, "embedding_grad_ramp.before"),
        ({"data": {"batch_ramp": {"before": 0.4, "after": 4, "start": 0}}}, "between 1 and 1,048,576 sequences"),
        ({"data": {"batch_ramp": {"before": 4, "after": 2**21, "start": 0}}}, "between 1 and 1,048,576 sequences"),
        ({"data": {"batch_ramp": {"before": 4, "after": 8, "start": 10**400}}}, "ramp's start"),
        ({"data": {"batch_ramp": {"before": 4, "after": 8, "start": 0, "length": -1}}}, "ramp's length"),
        ({"data": {"batch_ramp": {}}}, "before and after and start must be given"),
        ({"data": {"defects": [{"kind": "random", "first": 1, "last": 2}] * 257}}, "at most 256, not 257"),
        ({"steps": 10**5000}, "steps must lie between .* not a very large int"),
        ({"steps": [1] * 10**6}, r"not \[1, 1, .*\.\.\. \(3,000,000 characters\)"),
        ({"seed": -1}, "seed must lie between 0"),
        ({"optimizer": {"epsilon": 1e20}}, "epsilon must be at most 1"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProxyConfig.from_dict(values)


def test_text_that_is_no_json_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        ProxyConfig.from_json('{\n"seed": }')


@pytest.mark.parametrize(
    ("text", "key"), [('{"seed": 1, "seed": 2}', "seed"), ('{"model": {"width": 16, "width": 16}}', "width")]
)
def test_a_key_that_is_given_twice_is_told(text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"^'{key}' is given twice in one mapping"):
        ProxyConfig.from_json(text)


def test_fixed_sines_need_an_even_width_and_no_even_head() -> None:
    config = ProxyConfig.from_dict({"model": {"positions": "sinusoidal", "width": 6, "heads": 2}})
    assert Training.start(config).advance()["loss"] > 0


@pytest.mark.parametrize(
    ("given", "ended"),
    [
        (["data.batch_size"], ["data.batch_ramp"]),
        (["model.embedding_grad_scale", "data.batch_size"], ["model.embedding_grad_ramp", "data.batch_ramp"]),
        (["data.batch_size", "data.batch_ramp"], []),
        (["data.batch_size", "data.batch_ramp.after"], []),
        (["data.source", "model.z_loss"], []),
    ],
)
def test_a_plain_value_ends_the_ramp_that_is_not_given_with_it(given: list[str], ended: list[str]) -> None:
    assert ramps_ended(given) == ended


def test_text_that_nests_too_deep_or_counts_too_far_is_told() -> None:
    with pytest.raises(ConfigError, match="thousands deep"):
        ProxyConfig.from_json("[" * 100_000)
    with pytest.raises(ConfigError, match="not JSON that can be read"):
        ProxyConfig.from_json('{"seed": ' + "9" * 5000 + "}")


def test_what_is_refused_is_told_on_one_line() -> None:
    for values in ({"model": {"activation": "a\nb" * 9999}}, {"steps": "\n" * 9999}, {"x\n" * 9999: 1}):
        with pytest.raises(ConfigError) as caught:
            ProxyConfig.from_dict(values)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_a_ramp_jumps_or_climbs() -> None:
    assert [Ramp(before=1, after=3, start=5, length=4).at(k) for k in (4, 5, 7, 9, 20)] == [1, 1, 2, 3, 3]
    assert [Ramp(before=1, after=3, start=5).at(k) for k in (4, 5)] == [1, 3]
