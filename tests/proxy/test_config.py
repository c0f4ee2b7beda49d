"""Settings: written and read back, hashed by content, and refused with words that help."""

from __future__ import annotations

import pytest

from replay.proxy import ConfigError, Defect, Fault, ProxyConfig, Ramp

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
        ({"model": 3}, "a mapping of settings is needed"),
        ({"faults": [{"kind": "weight_bit", "step": 1}]}, "needs a parameter"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProxyConfig.from_dict(values)


def test_text_that_is_no_json_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        ProxyConfig.from_json('{\n"seed": }')


def test_a_ramp_jumps_or_climbs() -> None:
    assert [Ramp(before=1, after=3, start=5, length=4).at(k) for k in (4, 5, 7, 9, 20)] == [1, 1, 2, 3, 3]
    assert [Ramp(before=1, after=3, start=5).at(k) for k in (4, 5)] == [1, 3]
