"""Features against formulas written out again, kept tokens against words, areas against counted pairs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp

from compgen.composition.causal_lm import ComposedForCausalLM
from compgen.errors import ConfigError, UserError
from compgen.evaluation.config import ArmConfig, ProtocolConfig, TaskConfig
from compgen.evaluation.decoding import DecodingOptions, Reader, Row
from compgen.evaluation.diagnosed import FEATURES, area_measurements, read_items, write_items
from compgen.evaluation.diagnosing import Answer, answers_of, item_features, kept_tokens
from compgen.evaluation.diagnosing_config import DiagnoseConfig
from compgen.evaluation.generation import Answerer, in_order
from compgen.evaluation.posing import Posed, Questions
from compgen.evaluation.protocol import Extraction, TaskProtocol
from compgen.evaluation.results import Results
from compgen.evaluation.samples import Generation, Outcome, Sample, Score, StopReason, write_lines
from compgen.jobs import composition_diagnose
from compgen.questions.config import BenchmarkConfig
from compgen.run.context import FinishedJob

FIRST_WORD = 4
END = 1


def words(*numbers: int) -> str:
    return " ".join(f"w{number}" for number in numbers)


def questions(count: int, stop: Sequence[str] = ()) -> list[Sample]:
    prompts = [words(*range(number, 3 * number + 2)) for number in range(count)]
    return [Sample(f"task/{number}", prompt, 0, tuple(stop), {}) for number, prompt in enumerate(prompts)]


def written(model: Any, tokenizer: Any, samples: list[Sample], **options: Any) -> list[Generation]:
    answerer = Answerer(model, tokenizer, 4, DecodingOptions(**{"max_new_tokens": 12, **options}))
    return in_order(samples, [one for batch in answerer.answer(samples) for one in batch])


def generation(tokens: Sequence[int], text: str, raw: str, reason: StopReason) -> Generation:
    return Generation("task/0", "", tuple(tokens), text, raw, reason, 3)


def by_hand(model: ComposedForCausalLM, answer: Answer) -> dict[str, float]:
    """Every feature from the components' own logits in one row, in float64, token by token."""
    row = torch.tensor([[*answer.prompt_ids, *answer.new_ids]])
    with torch.no_grad():
        logits = [part.module(input_ids=row).logits[0].double().numpy() for part in model.parts]
    columns = slice(len(answer.prompt_ids) - 1, row.shape[1] - 1)
    base, *experts = (log_softmax(values[columns], axis=-1) for values in logits)
    tokens = [_token(base[place], [one[place] for one in experts], new) for place, new in enumerate(answer.new_ids)]
    shares = ("co_activity", "new_top", "agreement")
    found = {name: max(token[name] for token in tokens) for name in tokens[0] if name not in shares}
    return {**found, **{name: sum(token[name] for token in tokens) / len(tokens) for name in shares}}


def _token(base: Any, experts: list[Any], new: int) -> dict[str, float]:
    scores = base + sum(expert - base for expert in experts)
    log_z = logsumexp(scores)
    kls = [float((np.exp(expert) * (expert - base)).sum()) for expert in experts]
    leader = experts[int(np.argmax(kls))]
    top = int(leader.argmax())
    rivals = [token for token in range(len(base)) if token != top]
    ends = [expert[END] - base[END] for expert in experts]
    return {
        "log_normalizer_high": log_z,
        "log_normalizer_low": -log_z,
        "log_normalizer_size": abs(log_z),
        "divergence": max(kls),
        "co_activity": float(sum(kl > 0.1 for kl in kls) >= 2),
        "new_top": float(scores.argmax() not in [one.argmax() for one in (base, *experts)]),
        "end_surplus": sum(ends) - max(ends),
        "tail_leakage": max(scores[token] - scores[top] for token in rivals),
        "uncertainty": log_z - scores[new],
        "agreement": float(scores.argmax() == new),
    }


@pytest.mark.parametrize(("batch", "shared"), [(1, 0), (3, 0), (8, 0), (3, 30)])
def test_features_are_those_of_the_formulas_whatever_the_batch(
    composed: Any, tokenizer: Any, batch: int, shared: int
) -> None:
    samples = [replace(one, prompt=f"{words(*range(shared))} {one.prompt}") for one in questions(6)]
    answers = answers_of(tokenizer, samples, written(composed, tokenizer, samples))
    answers[2] = replace(answers[2], new_ids=answers[2].new_ids[:1])
    found = item_features(composed, answers, 0, batch)
    assert list(found) == [sample.id for sample in samples]
    for answer in answers:
        expected = by_hand(composed, answer) | {"length": float(len(answer.new_ids))}
        assert set(expected) == {*FEATURES, "agreement"}
        assert found[answer.id] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("prefixes", [None, [(), (9, 8, 7), (11,)]])
def test_a_model_agrees_with_its_own_answers_and_not_with_those_of_others(
    composed: Any, tokenizer: Any, prefixes: Any
) -> None:
    base, first, second = (part.module for part in composed.parts)
    model = ComposedForCausalLM.from_modules(base, [first, second], prefixes=prefixes)
    samples = questions(5)
    answers = answers_of(tokenizer, samples, written(model, tokenizer, samples))
    assert all(item["agreement"] == 1 for item in item_features(model, answers, 0, 4).values())
    other = ComposedForCausalLM.from_modules(first, [base])
    assert np.mean([item["agreement"] for item in item_features(other, answers, 0, 4).values()]) < 0.5


def test_an_answer_that_ran_on_is_kept_up_to_its_stop_string(composed: Any, tokenizer: Any) -> None:
    plain = written(composed, tokenizer, questions(6))
    middle = tokenizer.decode([plain[3].token_ids[5]])
    samples = questions(6, [middle])
    found = written(composed, tokenizer, samples, runs_on=True)
    for answer, one, whole in zip(answers_of(tokenizer, samples, found), found, plain, strict=True):
        assert one.token_ids == whole.token_ids
        spelled = [tokenizer.decode([token]) for token in one.token_ids]
        first = next((place for place, word in enumerate(spelled) if middle in word), len(spelled))
        assert answer.new_ids == one.token_ids[: max(1, first)]
    assert found[3].stop_reason is StopReason.stop_string


def test_the_end_token_is_kept_and_a_first_token_always(tokenizer: Any) -> None:
    row = Row(questions(1)[0], tokenizer("w1 w2")["input_ids"])
    tokens = [FIRST_WORD + 5, FIRST_WORD + 6, END]
    ended = generation(tokens, " w5 w6", " w5 w6", StopReason.end_token)
    stopped = generation(tokens, " w5 ", " w5 w6", StopReason.stop_string)
    at_once = generation(tokens, " ", " w5 w6", StopReason.stop_string)
    assert [kept_tokens(Reader(tokenizer), row, one) for one in (ended, stopped, at_once)] == [3, 1, 1]


def test_failed_answers_are_left_out_and_foreign_ones_refused(composed: Any, tokenizer: Any) -> None:
    samples = questions(3)
    good = written(composed, tokenizer, samples)
    failed = Generation("task/1", samples[1].prompt_digest, (), "", "", StopReason.error, 0, "out of memory")
    kept = answers_of(tokenizer, samples, [good[0], failed, good[2]])
    assert [answer.id for answer in kept] == ["task/0", "task/2"]
    with pytest.raises(UserError, match="task/3 has no generation.*limit"):
        answers_of(tokenizer, questions(4), good)
    longer = Generation(**{**vars(good[0]), "prompt_tokens": good[0].prompt_tokens + 1})
    with pytest.raises(UserError, match="task/0: its prompt has"):
        answers_of(tokenizer, samples, [longer, *good[1:]])


def test_items_come_back_as_they_were_written(tmp_path: Path) -> None:
    items = {"a/1": {"length": 3.0, "divergence": 0.1}, "a/2": {"length": 1.0, "divergence": 1e-9}}
    write_items(tmp_path / "items" / "arm.jsonl", items)
    assert read_items(tmp_path / "items" / "arm.jsonl") == items


TASK = TaskProtocol("gsm8k", "harness", 2, (), 12, Extraction.numeric)


def finished(folder: Path, kind: str, metrics: Mapping[str, Any], config: Mapping[str, Any]) -> FinishedJob:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "manifest.json").write_text(json.dumps({"kind": kind, "config": config}))
    return FinishedJob(folder)


def pair_of_jobs(
    folder: Path, seed: int, cells: Mapping[str, tuple[str, Sequence[float]]], digest: str = TASK.digest
) -> tuple[FinishedJob, FinishedJob]:
    """Diagnosed and judged answers of arm k4; a cell is outcomes, c, w, t or e, and the values of one feature."""
    about = {"arm": "k4", "protocol_name": "controlled"}
    outcomes = {"c": Outcome.correct, "w": Outcome.wrong, "t": Outcome.truncated, "e": Outcome.error}
    diagnosed, judged = {}, []
    for benchmark, (letters, values) in cells.items():
        items = {
            f"{benchmark}/{n}": {**dict.fromkeys(FEATURES, 0.0), "divergence": value, "length": float(n)}
            for n, value in enumerate(values)
        }
        write_items(folder / f"diagnose-{seed}" / "items" / f"{benchmark}.jsonl", items)
        scores = [Score(f"{benchmark}/{n}", outcomes[letter], None, "", {}) for n, letter in enumerate(letters)]
        (folder / f"score-{seed}").mkdir(exist_ok=True)
        write_lines(folder / f"score-{seed}" / f"{benchmark}.jsonl", scores)
        unit = {**about, "benchmark": benchmark, "file": f"items/{benchmark}.jsonl", "protocol_digest": digest}
        diagnosed[f"k4/{benchmark}"] = unit
        judged.append(
            {**about, "benchmark": benchmark, "seed": seed, "file": f"{benchmark}.jsonl", "protocol": TASK.as_dict()}
        )
    return (
        finished(folder / f"diagnose-{seed}", "composition_diagnose", {"seed": seed, "units": diagnosed}, {}),
        finished(folder / f"score-{seed}", "composition_score", {"units": judged}, {}),
    )


def counted(letters: str, values: Sequence[float]) -> float:
    failed = [value for letter, value in zip(letters, values, strict=True) if letter in "wt"]
    right = [value for letter, value in zip(letters, values, strict=True) if letter == "c"]
    return float(np.mean([(bad > good) + (bad == good) / 2 for bad in failed for good in right]))


def test_areas_are_counted_within_cells_and_averaged(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    letters = {(0, "gsm8k"): "cwtcwcwecwcwc", (0, "math"): "cccccccccwwww", (1, "gsm8k"): "wwwwwccccctce"}
    cells = {key: (text, draw.integers(0, 6, len(text)).astype(float).tolist()) for key, text in letters.items()}
    jobs = [
        pair_of_jobs(tmp_path, seed, {name: cell for (own, name), cell in cells.items() if own == seed})
        for seed in (0, 1)
    ]
    results = Results([judged for _, judged in jobs], 200)
    found = area_measurements([diagnosed for diagnosed, _ in jobs], results, 200)
    clear = [cells[0, "gsm8k"], cells[1, "gsm8k"]]  # only four answers fail in the third cell
    areas = [counted(*cell) for cell in clear]
    gains = [area - counted(text, range(len(text))) for area, (text, _) in zip(areas, clear, strict=True)]
    assert found["auc_divergence_k4"]["value"] == pytest.approx(np.mean(areas))
    assert found["auc_divergence_over_length_k4"]["value"] == pytest.approx(np.mean(gains))
    assert found["auc_new_top_k4"]["value"] == 0.5
    assert "auc_length_over_length_k4" not in found
    about = found["auc_divergence_k4"]
    assert (about["n"], about["seeds"], len(about["files"])) == (2, [0, 1], 6)
    assert about["interval"]["low"] == pytest.approx(min(areas))
    assert "2 of 3 cells" in about["note"]


def test_an_area_is_withheld_with_a_reason_where_no_cell_decides(tmp_path: Path) -> None:
    diagnosed, judged = pair_of_jobs(tmp_path, 0, {"gsm8k": ("ccccwwwwwe", range(10))})
    found = area_measurements([diagnosed], Results([judged], 200), 200)
    assert len(found) == 2 * len(FEATURES) - 1
    for measurement in found.values():
        assert measurement["value"] is None
        assert measurement["note"] == "in none of 1 cells do at least 5 answers fail and 5 succeed"


def test_answers_judged_under_another_protocol_are_refused(tmp_path: Path) -> None:
    diagnosed, judged = pair_of_jobs(tmp_path, 0, {"gsm8k": ("cw", [0, 1])}, digest="another")
    with pytest.raises(UserError, match="controlled/k4/gsm8k of seed 0 was not judged as it was diagnosed"):
        area_measurements([diagnosed], Results([judged], 200), 200)


class Context:
    """What the job needs of its run."""

    def __init__(self, directory: Path, inputs: Sequence[FinishedJob]) -> None:
        self.directory = directory
        self.inputs = {job.name: job for job in inputs}
        self.saved: dict[str, Any] | None = None
        self.checkpoint = SimpleNamespace(load=lambda: self.saved, save=self.save, due=lambda: True)
        self.rows: list[Mapping[str, float | int]] = []
        self.tables: dict[str, Any] = {}

    def save(self, state: Mapping[str, Any]) -> None:
        self.saved = json.loads(json.dumps(state))

    def log(self, values: Mapping[str, float | int]) -> None:
        self.rows.append(values)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        assert all(len(row) == len(columns) for row in rows)
        self.tables[name] = rows

    def progress(self, *_: object) -> None:
        pass


@pytest.fixture
def answered(tmp_path: Path, composed: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> FinishedJob:
    """A generation job of the composed fixture, and a job that finds model and questions without disk."""
    samples = questions(5)
    protocol = ProtocolConfig(single={"gsm8k": TaskConfig(max_new_tokens=12)})
    task = protocol.task("gsm8k", composed=True)
    monkeypatch.setattr(Questions, "pose", lambda *_: Posed(samples, "", len(samples)))
    monkeypatch.setattr(composition_diagnose, "available", lambda *_: {})
    monkeypatch.setattr(composition_diagnose, "load_arm", lambda arm, *_: composed)
    monkeypatch.setattr(composition_diagnose, "tokenizer_of", lambda *_: tokenizer)
    arms = {"composed": vars(ArmConfig(experts=["math", "code"])), "base": vars(ArmConfig())}
    file = tmp_path / "generate" / "generations" / "composed" / "gsm8k.jsonl"
    file.parent.mkdir(parents=True)
    write_lines(file, written(composed, tokenizer, samples))
    units = {f"{arm}/gsm8k": {"protocol": task.as_dict()} for arm in arms}
    config = {"chosen": list(arms), "arms": arms, "protocol": asdict(protocol), "benchmarks": ["gsm8k"]}
    return finished(tmp_path / "generate", "composition_generate", {"seed": 3, "units": units}, config)


def settings(**changed: Any) -> DiagnoseConfig:
    values = {"seed": 3, "arms": ["composed"], "benchmarks": ["gsm8k"], "sources": {"gsm8k": BenchmarkConfig()}}
    return DiagnoseConfig(**{**values, **changed})


def test_the_job_writes_items_and_means_and_resumes(
    answered: FinishedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(tmp_path / "out", [answered])
    metrics = composition_diagnose.run(settings(), context)  # type: ignore[arg-type]
    unit = metrics["units"]["composed/gsm8k"]
    items = read_items(tmp_path / "out" / unit["file"])
    assert (unit["n"], unit["agreement"], len(items), len(context.tables["units"])) == (5, 1, 5, 1)
    lengths = [item["length"] for item in items.values()]
    assert unit["means"]["length"] == context.rows[0]["diagnosis/length"] == np.mean(lengths)
    monkeypatch.setattr(composition_diagnose, "load_arm", lambda *_: pytest.fail("finished units are computed again"))
    assert composition_diagnose.run(settings(), context) == metrics  # type: ignore[arg-type]


def test_the_job_refuses_components_that_did_not_write_the_answers(
    answered: FinishedJob, tmp_path: Path, composed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, first, _ = (part.module for part in composed.parts)
    monkeypatch.setattr(composition_diagnose, "load_arm", lambda *_: ComposedForCausalLM.from_modules(first, [base]))
    with pytest.raises(UserError, match="choose only .* of the stored tokens"):
        composition_diagnose.run(settings(), Context(tmp_path / "out", [answered]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 4}, "generate has seed 3, this job seed=4"),
        ({"arms": ["k4"]}, "k4/gsm8k needs one job .* there are: none"),
        ({"arms": ["base"]}, "arms=base: a single model"),
    ],
)
def test_the_job_refuses_inputs_that_do_not_fit(
    answered: FinishedJob, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        composition_diagnose.run(settings(**changed), Context(tmp_path / "out", [answered]))  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [{"arms": []}, {"arms": ["k4", "k4"]}, {"limit": 0}, {"benchmarks": ["none"]}])
def test_settings_are_checked(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        settings(**changed)
