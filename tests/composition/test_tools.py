"""The command lines of lm-eval and evalplus on a saved composition."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compgen.composition.causal_lm import ComposedForCausalLM
from compgen.composition.tools import run_tool
from compgen.errors import UserError

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@pytest.fixture(scope="module")
def composed(saved: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("composed")
    ComposedForCausalLM.compose(str(saved[0]), [str(saved[1]), str(saved[2])]).save_pretrained(folder)
    return folder


def tool(arguments: list[str], directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from compgen.composition.tools import run_tool; run_tool(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=directory,
        env=os.environ | OFFLINE | {"XDG_CACHE_HOME": str(directory / "cache")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unknown_tool_is_refused() -> None:
    with pytest.raises(UserError, match="choose one of lm-eval, evalplus.codegen"):
        run_tool(["rm"])
    with pytest.raises(UserError, match=r"\(none\)"):
        run_tool([])


def test_arguments_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.argv)
    with pytest.raises(SystemExit):
        run_tool(["lm-eval", "--help"])
    assert sys.argv == before


@pytest.mark.slow
def test_lm_evals_command_line_takes_a_composition(composed: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"question": "1+1?", "answer": "2"}) + "\n")
    (tmp_path / "tiny.yaml").write_text(
        "task: tiny\ndataset_path: json\ndataset_kwargs:\n  data_files: {test: rows.jsonl}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: 'Q: {{question}} A:'\ndoc_to_target: '{{answer}}'\n"
        "generation_kwargs: {until: ['Q:'], max_gen_toks: 4}\nmetric_list:\n  - metric: exact_match\n"
    )
    options = ["--model", "hf", "--model_args", f"pretrained={composed},dtype=float32", "--device", "cpu"]
    told = tool(["lm-eval", "run", *options, "--tasks", "tiny", "--include_path", "."], tmp_path)
    assert told.returncode == 0, told.stderr[-2000:]
    assert "exact_match" in told.stdout


@pytest.mark.slow
def test_evalplus_code_generation_takes_a_composition(composed: Path, tmp_path: Path) -> None:
    problem = {
        "task_id": "HumanEval/0",
        "prompt": "def one():\n",
        "entry_point": "one",
        "canonical_solution": "    return 1\n",
        "contract": "",
        "base_input": [[]],
        "plus_input": [[]],
        "atol": 0,
        "test": "",
    }
    (tmp_path / "problems.jsonl").write_text(json.dumps(problem) + "\n")
    options = ["--model", str(composed), "--dataset", "humaneval", "--backend", "hf", "--greedy", "--dtype", "float32"]
    arguments = ["evalplus.codegen", *options, "--root", "out", "--force_base_prompt"]
    told = tool(arguments, tmp_path, HUMANEVAL_OVERRIDE_PATH=str(tmp_path / "problems.jsonl"))
    assert told.returncode == 0, told.stderr[-2000:]
    raw = list((tmp_path / "out" / "humaneval").rglob("*.raw.jsonl"))
    assert json.loads(raw[0].read_text())["solution"].startswith("def one():\n")
