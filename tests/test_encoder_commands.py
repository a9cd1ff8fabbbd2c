"""The commands that use an encoder, as a user types them."""

import shutil
from pathlib import Path

import cacr
from tests.conftest import Run, refused


def test_search_lists_and_draws(run: Run, trained: Path, classes: Path, tmp_path: Path) -> None:
    image, out = classes / "train" / "apples" / "image004.png", tmp_path / "found.png"
    code, text = run("search", trained, image, "--data", classes, "--k", 3, "--out", out)
    assert code == 0 and out.exists()
    assert "nearest of 40 images" in text and text.count(str(classes)) == 3 and str(image) not in text
    refused(run, ["search", trained, image, "--data", classes, "--out", out], "exists already")
    refused(run, ["search", trained, tmp_path / "no.png", "--data", classes], "No such file")
    refused(run, ["search", trained, image, "--data", classes, "--part", "tset"], "--part takes pretrain")
    refused(run, ["search", tmp_path, image, "--data", classes], "has no encoder.safetensors")


def test_features_are_read_as_asked(run: Run, trained: Path, classes: Path, tmp_path: Path) -> None:
    image, out = classes / "train" / "apples" / "image004.png", tmp_path / "read.npz"
    search = ["search", trained, image, "--data", classes, "--reader"]
    assert run(*search, "raw")[0] == 0
    refused(run, [*search, "withe"], "no reader 'withe'; did you mean white")
    embed = ["embed", trained, classes, "--out", out, "--reader", "white"]
    refused(run, [*embed, "--reader-components", 0], "reader-components")
    assert run(*embed)[0] == 0 and out.exists()
    evaluate = ["evaluate", trained, "--data", classes, "--set", "knn.reader=grey", "--protocol", "knn"]
    refused(run, evaluate, "knn: reader must be 'raw', 'centred', 'half_white' or 'white'")


def test_export_prints_how_to_load_the_file(run: Run, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "encoder.safetensors"
    code, text = run("export", trained, "--to", "torch", "--out", out)
    assert code == 0 and 'load_file("encoder.safetensors")' in text and str(out.with_suffix(".md")) in text
    refused(run, ["export", trained, "--to", "torch", "--out", out], "exists already")
    refused(run, ["export", trained, "--to", "timm", "--out", tmp_path / "b.safetensors"], "use --to torch")
    refused(run, ["export", trained, "--to", "onxx", "--out", tmp_path / "b.onnx"], "did you mean onnx")
    missing = ["export", tmp_path / "no", "--to", "torch", "--out", tmp_path / "b.safetensors"]
    refused(run, missing, "there is no run folder")


def test_compare_shows_runs_side_by_side(run: Run, trained: Path, classes: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(trained, first)
    settings = (first / "config.yaml").read_text()
    refused(run, ["compare", first], "none of these runs has been evaluated")
    assert run("evaluate", first, "--data", classes, "--protocol", "knn,retrieval")[0] == 0
    shutil.copytree(first, second)
    refused(run, ["compare", first, second], "have the same settings and seed 0")
    refused(run, ["compare", first, tmp_path, first], "no config.yaml", "given twice")
    (second / "config.yaml").write_text(settings.replace("seed: 0", "seed: 1"))
    code, text = run("compare", first, second)
    assert code == 0
    for part in ("knn accuracy", "retrieval mAP", "recall@5", "± 0.0", "views seen", "240"):
        assert part in text, part


def test_a_suite_prints_its_table_and_what_failed(
    run: Run, trained: Path, classes: Path, tmp_path: Path
) -> None:
    encoders = tmp_path / "ours", tmp_path / "theirs"
    for folder in encoders:
        folder.mkdir()
        for path in trained.glob("encoder.*"):
            shutil.copy(path, folder)
    sets = tmp_path / "sets"
    shutil.copytree(classes, sets / "fruit")
    shutil.copytree(classes / "train", sets / "broken" / "train")
    short = ("--set", "final_epochs=2", "--set", "workers=0")
    arguments = (encoders[0], "--against", encoders[1], "--protocol", "fewshot", "--quick", *short)
    code, text = run("evaluate", *arguments, "--data", f"suite:{sets}")
    assert code == 1
    assert "0 wins, 1 ties, 0 losses" in text and "nine settings were tried" in text
    assert "1 of 2 data sets failed" in text and "has neither test/ nor val/" in text
    code, text = run("evaluate", *arguments, "--data", sets / "fruit")
    assert code == 0 and "mean of 1" in text
    refused(run, ["evaluate", *arguments, "--data", f"suite:{tmp_path / 'nothing'}"], "there is no folder")


def test_quick_is_no_error_where_nothing_is_searched_for(
    run: Run, trained: Path, classes: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "ours"
    folder.mkdir()
    for path in trained.glob("encoder.*"):
        shutil.copy(path, folder)
    unchanged = "--quick has no effect"
    short = ("--set", "min_steps=1", "--set", "linear.epochs=1", "--set", "workers=0")
    code, text = run("evaluate", folder, "--data", classes, "--quick", *short)
    assert code == 0 and "knn" in text and "linear" in text and text.count(unchanged) == 1
    both = ("--protocol", "knn,fewshot", "--set", "final_epochs=1", "--set", "draws=1", "--set", "workers=0")
    code, text = run("evaluate", folder, "--data", classes, "--quick", *both)
    assert code == 0 and "nine settings were tried" in text and unchanged not in text
    code, text = run("evaluate", folder, "--data", classes, "--protocol", "knn", "--set", "workers=0")
    assert code == 0 and unchanged not in text
    refused(run, ["evaluate", folder, "--data", classes, "--set", "search=quick"], "no setting 'search'")
    refused(run, ["evaluate", folder, "--data", classes, "--quick", "--protocol", "knm"], "did you mean knn")
    (result,) = cacr.evaluate(run=folder, data=classes, protocol="knn", quick=True, workers=0, baselines=())
    assert result.protocol == "knn"
