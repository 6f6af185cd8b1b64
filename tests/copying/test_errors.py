import pytest
import torch
import torch.nn.functional as F

from compgen.copying.errors import evaluate, judged_inputs
from compgen.copying.sequences import CopyBatch, draw_sequences, token_law
from compgen.randomness import torch_stream

VOCABULARY = 64


def draw(law: str, shortest: int, longest: int, count: int = 3000) -> CopyBatch:
    probabilities = token_law(law, VOCABULARY)
    return draw_sequences(count, 64, probabilities, probabilities, shortest, longest, torch_stream(0, law))


def oracle(batch: CopyBatch):  # type: ignore[no-untyped-def]
    """A perfect copier: inside the second copy it predicts the token after the same one in the first."""

    def predict(tokens: torch.Tensor) -> torch.Tensor:
        row = next(i for i in range(0, len(batch), 250) if torch.equal(batch.tokens[i : i + 250], tokens))
        part = batch.rows(row, row + 250)
        distance = (part.starts[:, 1] - part.starts[:, 0])[:, None]
        source = (torch.arange(64) + 1 - distance).clamp(min=0)
        return F.one_hot(tokens.gather(1, source), VOCABULARY).float()

    return predict


def test_a_perfect_copier_scores_zero_when_aligned() -> None:
    for batch in (draw("zipf", 10, 19), draw("uniform", 25, 25)):
        assert evaluate(oracle(batch), batch, VOCABULARY).error("aligned") == 0


def test_a_perfect_copier_cannot_score_zero_by_the_authors_definition() -> None:
    out_of_distribution = draw("uniform", 25, 25)
    error = evaluate(oracle(out_of_distribution), out_of_distribution, VOCABULARY).error("authors")
    assert error == pytest.approx(1 / 21 * (1 - 1 / VOCABULARY), abs=0.002)
    in_distribution = draw("zipf", 10, 19)
    # One target of L − 4 is background; it is hit by chance where it equals the token after the first copy.
    collision = float((token_law("zipf", VOCABULARY) ** 2).sum())
    judged = 14.5 - 4
    error = evaluate(oracle(in_distribution), in_distribution, VOCABULARY).error("authors")
    assert error == pytest.approx((1 - collision) / judged, abs=0.004)


def test_the_masks_by_hand() -> None:
    batch = CopyBatch(torch.zeros(1, 30, dtype=torch.int64), torch.tensor([[2, 15]]), torch.tensor([8]))
    assert judged_inputs(batch, "authors")[0].nonzero().flatten().tolist() == [19, 20, 21, 22]
    assert judged_inputs(batch, "aligned")[0].nonzero().flatten().tolist() == [18, 19, 20, 21]
    assert judged_inputs(batch, "aligned", copy=0)[0].nonzero().flatten().tolist() == [5, 6, 7, 8]


def test_errors_by_position_and_token_add_up_to_the_whole() -> None:
    batch = draw("zipf", 10, 19, count=300)

    def predict(tokens: torch.Tensor) -> torch.Tensor:
        return F.one_hot(torch.zeros_like(tokens), VOCABULARY).float()

    found = evaluate(predict, batch, VOCABULARY)
    assert int(found.token_judged.sum()) == int(found.judged["aligned"].sum()) == int((batch.lengths - 4).sum())
    assert int(found.token_wrong.sum()) == int(found.wrong["aligned"].sum())
    assert int(found.token_wrong[0]) == 0
    assert int(found.offset_judged.sum()) == int(batch.lengths.sum())
    assert int(found.offset_judged[0]) == 300


def test_the_loss_is_over_all_positions() -> None:
    batch = draw("uniform", 25, 25, count=10)
    found = evaluate(lambda tokens: torch.zeros(*tokens.shape, VOCABULARY), batch, VOCABULARY)
    assert float(found.loss.mean()) == pytest.approx(torch.tensor(64.0).log().item(), rel=1e-6)
