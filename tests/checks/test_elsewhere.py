"""What a proof that cannot run here says of the GPUs where it could."""

import json
from pathlib import Path

import pytest
from helpers.notebook_shell import notebook_shell

from utils.checks import elsewhere
from utils.checks.elsewhere import proof_hash, sentences

PROOF = "if cuda:\n    assert ratio() < 0.5\nelse:\n    not_verified('needs a CUDA GPU')"
ROW = {
    "id": "8.12",
    "proof": proof_hash(PROOF),
    "status": "verified",
    "on_device": True,
    "compared": "ratio 0.21 < 0.5",
}


def receipt(folder: Path, *rows: dict, gpu: str = "NVIDIA H200") -> Path:
    folder.mkdir(exist_ok=True)
    lectures = {"08_trial": {"run": 0, "claims": list(rows)}}
    content = {"gpu": gpu, "runs": [{"date": "2026-11-27T15:30:55+00:00"}], "lectures": lectures, "solutions": {}}
    path = folder / f"{gpu.lower().replace(' ', '-')}.json"
    path.write_text(json.dumps(content))
    return path


def test_each_gpu_says_what_it_compared(tmp_path):
    receipt(tmp_path, ROW)
    receipt(tmp_path, ROW | {"compared": "ratio 0.3 < 0.5"}, gpu="Tesla T4")
    said = ["On an H200 (2026-11-27): ratio 0.21 < 0.5", "On a Tesla T4 (2026-11-27): ratio 0.3 < 0.5"]
    assert sentences(PROOF, tmp_path) == said
    assert sentences(f"# a comment\n{PROOF}  \n", tmp_path) == said, "blanks and comments are no other proof"
    assert sentences(PROOF.replace("0.5", "0.6"), tmp_path) == [], "it ran another one"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"compared": ""}, ["On an H200 (2026-11-27): verified"]),
        ({"status": "failed", "compared": ""}, ["On an H200 (2026-11-27): failed"]),
        ({"on_device": False}, ["On the host of an H200 (2026-11-27): ratio 0.21 < 0.5"]),
        ({"status": "not verified"}, []),
    ],
)
def test_it_says_what_the_receipt_holds(tmp_path, change, sentence):
    receipt(tmp_path, ROW | change)
    assert sentences(PROOF, tmp_path) == sentence


def test_a_receipt_made_before_they_kept_what_was_compared(tmp_path):
    receipt(tmp_path, {key: value for key, value in ROW.items() if key != "compared"})
    assert sentences(PROOF, tmp_path) == ["On an H200 (2026-11-27): verified"]


def test_two_claims_with_one_proof_are_not_told_apart(tmp_path):
    receipt(tmp_path, ROW, ROW | {"id": "8.13", "compared": "ratio 0.4 < 0.5"})
    assert sentences(PROOF, tmp_path) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"lectures": {"a": {}}}', '{"lectures": {"a": {"claims": [1]}}}']
)
def test_what_is_no_receipt_breaks_no_proof(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    assert sentences(PROOF, tmp_path) == []


def test_without_receipts_or_without_code_it_says_nothing(tmp_path):
    assert sentences(PROOF, tmp_path / "nowhere") == sentences("x = (", tmp_path) == sentences("", tmp_path) == []


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("NVIDIA A100-SXM4-80GB", "an A100-SXM4-80GB"),
        ("NVIDIA B200", "a B200"),
        ("NVIDIA GeForce RTX 4090", "a GeForce RTX 4090"),
        ("NVIDIA L4", "an L4"),
        ("NVIDIA RTX A6000", "an RTX A6000"),
        ("NVIDIA T4", "a T4"),
    ],
)
def test_the_article_is_that_of_the_spoken_name(tmp_path, gpu, words):
    receipt(tmp_path, ROW, gpu=gpu)
    assert sentences(PROOF, tmp_path) == [f"On {words} (2026-11-27): ratio 0.21 < 0.5"]


def test_the_line_of_a_notebook(tmp_path, capsys, monkeypatch):
    receipt(tmp_path, ROW)
    monkeypatch.setattr(elsewhere, "STORE", tmp_path)
    with notebook_shell() as shell:
        shell.run_cell("from utils.checks import explain_asserts, not_verified\nexplain_asserts()\ncuda = False")
        capsys.readouterr()
        shell.run_cell(PROOF, cell_id="proof-8-12")
        line = "○ 8.12  needs a CUDA GPU. On an H200 (2026-11-27): ratio 0.21 < 0.5\n"
        assert capsys.readouterr().out == line
        shell.run_cell("not_verified('needs Linux')", cell_id="proof-8-13")
        assert capsys.readouterr().out == "○ 8.13  needs Linux\n"
