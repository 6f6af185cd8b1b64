import pytest
import torch

from compgen.composition.task_arithmetic import CausalTransformer, compare, log_linear, transformer
from compgen.composition.theory_config import ExactConfig, TaskArithmeticConfig
from compgen.errors import ConfigError


def test_log_linear_models_add_and_compose_alike() -> None:
    found = log_linear(TaskArithmeticConfig(), seed=3)
    assert found["distance"] < 1e-12
    assert found["gap"] < 1e-10


def test_a_quadratic_model_has_the_gap_that_its_cross_term_says() -> None:
    """Logits a·w + (b·w)²: the gap is the mixed term 2(b·λτ1)(b·λτ2)."""
    generator = torch.Generator().manual_seed(0)
    a, b, w, first, second = (torch.randn(4, 5, generator=generator, dtype=torch.float64) for _ in range(5))

    def logits(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        return a * weights["w"] + (b * weights["w"]) ** 2

    strength = 0.1
    found = compare(logits, {"w": w}, [{"w": first}, {"w": second}], strength)  # type: ignore[arg-type]
    cross = 2 * (b * strength * first) * (b * strength * second)
    centred = cross - cross.mean(-1, keepdim=True)
    assert found["gap"] == pytest.approx(float(centred.square().mean().sqrt()))


def test_the_gap_of_a_transformer_is_of_second_order() -> None:
    config = TaskArithmeticConfig(base_steps=60, expert_steps=30, strengths=[0.001, 0.003])
    found = transformer(config, seed=1)
    assert found["gap_slope"] == pytest.approx(2, abs=0.05)
    assert found["divergence_slope"] == pytest.approx(4, abs=0.1)


def test_experts_that_train_the_output_layer_only_add_and_compose_alike() -> None:
    found = transformer(TaskArithmeticConfig(base_steps=30, expert_steps=30), seed=2)["output_layer"]
    assert found["distance"] < 1e-12
    assert found["added_accuracy"] == found["composed_accuracy"]


def test_the_transformer_is_causal() -> None:
    config = TaskArithmeticConfig()
    torch.manual_seed(0)
    model = CausalTransformer(config).eval()
    tokens = torch.randint(config.vocabulary, (1, config.length))
    changed = tokens.clone()
    changed[0, -1] = (tokens[0, -1] + 1) % config.vocabulary
    torch.testing.assert_close(model(tokens)[:, :-1], model(changed)[:, :-1])


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: ExactConfig(length=3), "theory.exact.length"),
        (lambda: ExactConfig(vocabulary=10, length=8), "theory.exact.length"),
        (lambda: ExactConfig(instances=0), "theory.exact.instances"),
        (lambda: TaskArithmeticConfig(strengths=[1.0, 0.1]), "theory.task_arithmetic.strengths"),
        (lambda: ExactConfig(bound_trusted=64), "theory.exact.bound_trusted"),
        (lambda: ExactConfig(shares=[0.0, 1.0]), "theory.exact.shares"),
        (lambda: TaskArithmeticConfig(width=30), "theory.task_arithmetic.width"),
    ],
)
def test_impossible_sizes_name_their_field(build: object, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        build()  # type: ignore[operator]
