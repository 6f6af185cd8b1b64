from dataclasses import replace

import pytest

from compgen.errors import ConfigError
from compgen.evaluation.protocol import Extraction, TaskProtocol, require_comparable

FEW_SHOT = TaskProtocol("gsm8k", "harness", 8, ("Question:",), 512, Extraction.numeric)
ZERO_SHOT = replace(FEW_SHOT, prompt="authors_zero_shot", shots=0, stop=(), extraction=Extraction.authors)


def test_equal_protocols_have_one_digest_and_any_changed_field_another() -> None:
    assert FEW_SHOT.digest == replace(FEW_SHOT).digest
    changes = {"shots": 7, "stop": (), "max_new_tokens": 256, "dtype": "bfloat16", "batch_size": 1, "scorer": 3}
    digests = {replace(FEW_SHOT, **{name: value}).digest for name, value in changes.items()}
    assert len(digests | {FEW_SHOT.digest}) == len(changes) + 1


def test_arms_under_different_protocols_are_refused_with_the_differing_fields() -> None:
    require_comparable("composed", FEW_SHOT, "math", FEW_SHOT)
    with pytest.raises(ConfigError, match="composed and math on gsm8k") as caught:
        require_comparable("composed", FEW_SHOT, "math", ZERO_SHOT)
    message = str(caught.value)
    assert all(field in message for field in ("prompt", "shots 8 / 0", "stop", "extraction"))
    assert "dtype" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("field", "value"),
    [("shots", -1), ("max_new_tokens", 0), ("batch_size", 0), ("dtype", "float8"), ("stop", ("",))],
)
def test_impossible_values_are_refused_with_their_field(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"protocol.gsm8k.{field}"):
        replace(FEW_SHOT, **{field: value})
