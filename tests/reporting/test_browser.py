"""The page in a real browser, opened from disk: what a person sees and does."""

import base64
import gzip
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cacr.evaluation import evaluate_run
from cacr.features import encode
from cacr.losses.engine.pairs import unit
from cacr.reporting import refresh_report, write_report
from cacr.reporting.model import load_model
from cacr.reporting.shown import open_shown
from cacr.runs.folder import RunFolder
from cacr.runs.result import Result, write_result
from cacr.runs.run import Run
from cacr.runs.verdict import Verdict, write_verdict
from tests.reporting.conftest import CLASSES, HOSTILE, colour_of

pytestmark = pytest.mark.trains

Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open a file; afterwards there must have been no error and no request but for the file itself."""
    contexts, problems, requests = [], [], []

    def open_file(path: Path, **options: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        context.set_default_timeout(0)  # a slow machine is no error
        context.add_init_script("addEventListener('error', () => { window.failed = true; });")
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda message: message.type in ("error", "warning") and problems.append(message.text)
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("window.failed || document.body.dataset.ready === 'yes'")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests), requests
    assert sum(url.startswith("file:") for url in requests) == len(contexts)


def gallery_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="gallery">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    gallery: dict[str, Any] = json.loads(found[1])
    gallery["names"] = json.loads(gzip.decompress(base64.b64decode(gallery["names"])))
    return gallery


def place_of(page: Any, image: int, run: int = 0) -> tuple[float, float]:
    page.locator(".map canvas:not(.over)").nth(run).scroll_into_view_if_needed()
    x, y = page.evaluate(
        "([run, image]) => document.querySelectorAll('.map canvas:not(.over)')[run].placeOf(image)",
        [run, image],
    )
    return x, y


def lonely(gallery: dict[str, Any], count: int = 5) -> list[int]:
    """Images whose points are farthest from any other, so that the pointer finds them."""
    places = np.frombuffer(base64.b64decode(gallery["maps"][0]["places"]), "<u2").reshape(-1, 2).astype(float)
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    return np.argsort(-distance.min(1))[:count].tolist()


def mean_colour(element: Any) -> np.ndarray:
    with Image.open(io.BytesIO(element.screenshot())) as shot:
        return np.median(np.asarray(shot.convert("RGB"))[4:-4, 4:-4].reshape(-1, 3), axis=0)


def test_points_appear_and_everything_is_there(open_page: Open, coloured_page: Path) -> None:
    page = open_page(coloured_page)
    titles = page.locator("h2").all_inner_texts()
    assert titles == [
        "In short", "Map of the images", "Results", "Hardest negatives", "Likely false negatives", "Near-duplicates",
        "Curves", "Weights of positives and negatives", "Budget", "Settings",
    ]  # fmt: skip
    page.locator(".map canvas:not(.over)").scroll_into_view_if_needed()
    drawn = page.evaluate(
        """() => { const c = document.querySelector('.map canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 100; return n; }"""
    )
    assert drawn > 49 * 10  # a disc of radius 3 has some 30 pixels
    assert page.locator(".query").count() == 4


def test_hovering_shows_the_right_thumbnail(open_page: Open, coloured_page: Path) -> None:
    gallery = gallery_of(coloured_page)
    page = open_page(coloured_page)
    for image in lonely(gallery):
        page.mouse.move(*place_of(page, image))
        assert page.locator("#tip b").inner_text() == gallery["names"][image]
        folder, file = gallery["names"][image].split("/")
        if file != "copy.png":
            expected = colour_of(CLASSES.index(folder), int(file[:2]))
            assert np.abs(mean_colour(page.locator("#tip .picture")) - expected).max() < 12
        assert folder in page.locator("#tip").inner_text()
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_clicking_shows_the_right_neighbours_and_pushes(
    open_page: Open, coloured_page: Path, coloured_run: Path
) -> None:
    model = load_model(Run.open(coloured_run))
    shown = open_shown(model.run.settings, None)
    features = encode(model.encoder, shown.source).values
    x = unit(features).double().numpy()
    z = model.embed(features).double().numpy()
    gallery = gallery_of(coloured_page)
    page = open_page(coloured_page)
    for image in lonely(gallery, 3):
        page.mouse.click(*place_of(page, image))
        others = [j for j in range(len(x)) if j != image]
        cosine = {j: float(x[image] @ x[j]) for j in others}
        nearest = sorted(others, key=lambda j: -cosine[j])[:8]
        near = page.locator(".chosen .near button")
        # images that are equally near but for rounding may come in either order
        seen = [cosine[int(b.get_attribute("data-image") or -1)] for b in near.all()]
        assert seen == pytest.approx([cosine[j] for j in nearest], abs=1e-5)
        # the page keeps a cosine in a byte, and shows two digits of it
        shown_as = float(near.first.inner_text().split()[-1])
        assert shown_as == pytest.approx(cosine[nearest[0]], abs=0.5 / 127 + 0.005 + 1e-5)
        kernel = {j: np.exp(-model.run.t_neg * np.sum((z[image] - z[j]) ** 2)) for j in others}
        hardest = sorted(others, key=lambda j: -kernel[j])[:6]
        away = page.locator(".chosen .away button")
        seen = [kernel[int(b.get_attribute("data-image") or -1)] for b in away.all()]
        assert seen == pytest.approx([kernel[j] for j in hardest], rel=1e-4)
        weight = len(others) * kernel[hardest[0]] / sum(kernel.values())
        assert float(away.first.inner_text().split()[-1]) == pytest.approx(weight, rel=0.06)
    chosen = int(near.first.get_attribute("data-image") or -1)
    near.first.click()  # a neighbour can be chosen in turn
    assert gallery["names"][chosen] in page.locator(".chosen .head").inner_text()


def test_filters_hide_points(open_page: Open, coloured_page: Path) -> None:
    gallery = gallery_of(coloured_page)
    page = open_page(coloured_page)
    image = lonely(gallery, 1)[0]
    label = CLASSES.index(gallery["names"][image].split("/")[0])
    group = sorted(CLASSES).index(CLASSES[label])  # folders are numbered in the order of their names
    x, y = place_of(page, image)
    page.mouse.move(x, y)
    assert page.locator("#tip").is_visible()
    button = page.locator(f".classes button[data-group='{group}']")
    assert CLASSES[label] in button.inner_text()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    page.mouse.move(*place_of(page, image))
    assert (
        page.locator("#tip").is_hidden() or gallery["names"][image] not in page.locator("#tip").inner_text()
    )
    page.get_by_role("button", name="Show all groups").click()
    page.mouse.move(*place_of(page, image))
    assert page.locator("#tip b").inner_text() == gallery["names"][image]
    page.get_by_label("Colour by").select_option("cluster")
    assert page.locator(".classes button").first.inner_text().startswith("cluster 1")


def test_names_stay_text(open_page: Open, coloured_page: Path) -> None:
    page = open_page(coloured_page)
    assert page.locator("img, iframe, #main i:not(.column i), b b, main script").count() == 0
    assert page.title() != "taken"
    assert HOSTILE in page.locator(".classes").inner_text()
    assert "coloured <i>run" in page.locator("#top").inner_text()


def test_zoom_and_keyboard(open_page: Open, coloured_page: Path) -> None:
    gallery = gallery_of(coloured_page)
    page = open_page(coloured_page)
    a, b = lonely(gallery, 2)

    def distance() -> float:
        return float(np.hypot(*np.subtract(place_of(page, a), place_of(page, b))))

    before = distance()
    canvas = page.locator(".map canvas:not(.over)")
    canvas.focus()
    page.keyboard.press("+")
    assert distance() == pytest.approx(1.4 * before)
    page.keyboard.press("0")
    assert distance() == pytest.approx(before)
    x, y = place_of(page, a)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        """([a, b, before]) => { const canvas = document.querySelector(".map canvas:not(.over)");
        const [[x, y], [u, v]] = [canvas.placeOf(a), canvas.placeOf(b)];
        return Math.hypot(x - u, y - v) > 1.5 * before; }""",
        arg=[a, b, before],
    )
    assert place_of(page, a) == pytest.approx((x, y), abs=1)
    page.mouse.down()
    page.mouse.move(x + 60, y + 30, steps=3)
    page.mouse.up()
    assert place_of(page, a) == pytest.approx((x + 60, y + 30), abs=2)
    page.keyboard.press("0")
    page.mouse.move(2, 2)
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert page.locator("#tip b").inner_text() == gallery["names"][1]
    page.keyboard.press("Enter")
    assert gallery["names"][1] in page.locator(".chosen .head").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".chosen .head").count() == 0 and page.locator("#tip").is_hidden()


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
Line = tuple[tuple[float, float], tuple[float, float]]


def swipe(page: Any, *lines: Line) -> None:
    """Move a finger along each line, all at once."""
    client = page.context.new_cdp_session(page)
    for part in (0, 0.25, 0.5, 0.75, 1):
        places = [np.add(start, part * np.subtract(end, start)) for start, end in lines]
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        kind = "touchMove" if part else "touchStart"
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def middle_of_map(page: Any) -> tuple[float, float]:
    canvas = page.locator(".map canvas:not(.over)")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_finger_on_the_map_scrolls_the_page(open_page: Open, coloured_page: Path) -> None:
    page = open_page(coloured_page, **PHONE)
    x, y = middle_of_map(page)
    inside = """() => { const canvas = document.querySelector(".map canvas");
    return canvas.placeOf(0)[1] - canvas.getBoundingClientRect().top; }"""
    scrolled, place = page.evaluate("scrollY"), page.evaluate(inside)
    swipe(page, ((x, y), (x, y - 200)))
    page.wait_for_function("before => scrollY > before + 100", arg=scrolled)
    assert page.evaluate(inside) == pytest.approx(place)


def test_fingers_move_and_zoom_a_map_that_was_tapped(open_page: Open, coloured_page: Path) -> None:
    page = open_page(coloured_page, **PHONE)
    a, b = lonely(gallery_of(coloured_page), 2)
    x, y = middle_of_map(page)

    def offset() -> list[float]:
        return np.subtract(place_of(page, b), place_of(page, a)).tolist()

    page.touchscreen.tap(x, y)
    before = np.array(offset())
    swipe(page, ((x - 30, y), (x - 90, y)), ((x + 30, y), (x + 90, y)))
    assert offset() == pytest.approx(3 * before, rel=0.02)
    place = place_of(page, a)
    swipe(page, ((x - 30, y), (x - 10, y + 40)), ((x + 30, y), (x + 50, y + 40)))
    assert place_of(page, a) == pytest.approx((place[0] + 20, place[1] + 40), abs=2)
    assert offset() == pytest.approx(3 * before, rel=0.05)
    swipe(page, ((x, y), (x - 10, y - 50)))
    assert place_of(page, a) == pytest.approx((place[0] + 10, place[1] - 10), abs=2)


def test_curves_are_read_with_pointer_and_keys(
    open_page: Open, coloured_page: Path, coloured_run: Path
) -> None:
    rows = [json.loads(line) for line in (coloured_run / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    page = open_page(coloured_page)
    chart = page.locator(".chart[data-figure=loss] svg")
    chart.focus()
    page.keyboard.press("Home")
    assert float(page.locator("#tip div").first.inner_text()) == pytest.approx(losses[0], rel=1e-3)
    page.keyboard.press("ArrowRight")
    assert float(page.locator("#tip div").first.inner_text()) == pytest.approx(losses[1], rel=1e-3)
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.96, box["y"] + box["height"] / 2)
    assert float(page.locator("#tip div").first.inner_text()) == pytest.approx(losses[-1], rel=1e-3)
    path = chart.locator("path.line").get_attribute("d")
    assert len(re.findall("[ML]", path)) == len(losses)


def test_verdict_bound_and_reference_are_shown(open_page: Open, coloured_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "told"
    shutil.copytree(coloured_run, run)
    figures = {"entropy": 1.2, "max_entropy": 1.9, "positive_distance": 0.5, "positive_distance_std": 0.1}
    with (run / "metrics.jsonl").open("a") as file:
        for step in (100, 200, 300):
            file.write(json.dumps({"step": step, "epoch": step / 100, **figures}) + "\n")
        file.write('{"step": 301, "epoch": 3.5, "loss": NaN}\n')
    past = [
        {"step": 1, "epoch": 1.0, "verdict": "healthy"},
        {"step": 2, "epoch": 2.0, "verdict": "diverging"},
    ]
    verdict = {
        "verdict": "diverging",
        "evidence": ["<i>loss</i> grew"],
        "advice": ["lower lr"],
        "history": past,
        "step": 2,
        "epoch": 2.0,
    }
    (run / "verdict.json").write_text(json.dumps(verdict))
    points = [[1, 1.0], [2, 1.1], [3, 1.2]]
    (run / "reference.json").write_text(
        json.dumps({"name": "a <b>recipe</b>", "figures": {"entropy": points}})
    )
    page = open_page(refresh_report(run))
    overview = page.locator("#overview").inner_text()
    assert "The run has failed: its loss diverged." in overview
    assert "cacr pretrain --config" in page.locator("#overview code").inner_text()
    assert "diverging" in overview and "<i>loss</i> grew" in overview and "lower lr" in overview
    assert "healthy (epoch 1), diverging (epoch 2)" in overview
    entropy = page.locator(".chart[data-figure=entropy]")
    assert entropy.locator("path.bound").count() == 1
    reference = entropy.locator("path.reference").get_attribute("d")
    assert len(re.findall("[ML]", reference)) == 3
    assert "reference: a <b>recipe</b>" in page.locator(".legend").inner_text()
    assert page.locator(".chart[data-figure=positive_distance] path.band").count() == 1
    assert page.locator(".chart[data-figure=max_entropy]").count() == 0
    entropy.locator("svg").focus()
    page.keyboard.press("End")
    assert page.locator("#tip div").all_inner_texts() == ["1.2 of 1.9", "reference: 1.2"]


@pytest.mark.parametrize(
    ("name", "shown", "kind"),
    [
        ("healthy", "✓ healthy", "good"),
        ("not sure yet", "? not sure yet", "unsure"),
        ("too few images", "? too few images", "unsure"),
        ("diverging", "⚠ diverging", "bad"),
    ],
)
def test_a_verdict_has_its_sign_and_colour(
    open_page: Open, coloured_run: Path, tmp_path: Path, name: str, shown: str, kind: str
) -> None:
    run = Path(shutil.copytree(coloured_run, tmp_path / "told"))
    write_verdict(RunFolder(run).verdict, Verdict(name, ["a figure"], [], 12, 3.0))  # type: ignore[arg-type]
    page = open_page(refresh_report(run))
    verdict = page.locator(f".verdict.{kind}")
    assert verdict.inner_text() == shown
    colour, expected = (
        page.evaluate(f"getComputedStyle({element}).color")
        for element in (
            "document.querySelector('.verdict')",
            "Object.assign(document.body.appendChild("
            f"document.createElement('i')), {{style: 'color: var(--{kind})'}})",
        )
    )
    assert colour == expected


def test_tables_are_copied_as_csv(open_page: Open, coloured_page: Path) -> None:
    page = open_page(coloured_page)
    page.get_by_role("button", name="Copy settings as CSV").click()
    page.wait_for_selector(".table .bar span:has-text('rows copied')")
    page.locator("body").evaluate(
        "body => body.append(Object.assign(document.createElement('textarea'), {id: 'paste'}))"
    )
    page.locator("#paste").focus()
    page.keyboard.press("Control+V")
    text = page.locator("#paste").input_value()
    lines = text.splitlines()
    assert lines[0] == "setting,coloured <i>run"
    assert "objective,cacr" in lines and "batch_size,8" in lines


def test_several_runs_share_axes(open_page: Open, coloured_run: Path, trained: Path, tmp_path: Path) -> None:
    out, missing = write_report([coloured_run, trained], out=tmp_path / "both.html")
    assert missing == ""
    page = open_page(out)
    assert page.locator(".map").count() == 2
    assert page.locator(".chart[data-figure=loss] path.line").count() == 2
    image = lonely(gallery_of(out), 1)[0]
    before = place_of(page, image, 1)
    page.locator(".map canvas:not(.over)").nth(0).focus()
    page.keyboard.press("ArrowRight")
    after = place_of(page, image, 1)
    assert after[0] == pytest.approx(before[0] - 40) and after[1] == pytest.approx(before[1])
    page.mouse.click(*place_of(page, image, 0))
    assert page.locator(".chosen .near").count() == 2


def _evaluated(run: Path, folder: Path) -> Path:
    """A copy of a run with results: with few labels beside all baselines, with all of them beside the pixels."""
    copied = Path(shutil.copytree(run, folder / "a run with a name that is long enough for two lines"))
    weights = Run.open(copied).digest
    few = {"encoder": 0.752, "start": 0.7, "untrained": 0.318, "pixels": 0.664}
    for protocol, labels, scores in (("linear", 10, few), ("knn", None, {"encoder": 0.8, "pixels": 0.664})):
        for subject, score in scores.items():
            result = Result(
                protocol=protocol, subject=subject, score=score, spread=0.018 if labels else None,
                data="/data/with/a/long/path/that/has/no/spaces/at/all/in/it/train", test_data="digits",
                split="the test images", labels_per_class=labels, counts={"test_images": 500, "classes": 10},
                settings={"k": 20, "rates": [0.1, 0.01]}, seed=0, details={}, encoder={}, training={},
                weights=weights,
            )  # fmt: skip
            write_result(copied / "evaluation", result)
    return copied


def test_results_are_a_row_for_each_protocol(open_page: Open, coloured_run: Path, tmp_path: Path) -> None:
    page = open_page(refresh_report(_evaluated(coloured_run, tmp_path)))
    results = page.locator("#results")
    assert results.locator("th").all_inner_texts() == ["protocol", "encoder", "start", "untrained", "pixels"]
    rows = [
        [cell.inner_text() for cell in row.locator("td").all()] for row in results.locator("tbody tr").all()
    ]
    assert [[row[0].split("\n"), *row[1:]] for row in rows] == [
        [["knn", "all labels, accuracy"], "80.0 %", "", "", "66.4 %"],
        [["linear", "10 labels per class, accuracy"],
         "75.2 ± 1.8 %", "70.0 ± 1.8 %", "31.8 ± 1.8 %", "66.4 ± 1.8 %"],
    ]  # fmt: skip
    assert not results.locator(".how").is_visible()
    results.locator("summary").click()
    assert "rates=[0.1, 0.01]" in results.locator(".how").inner_text()
    headline = page.locator("#overview .headline")
    assert headline.inner_text() == "Better than the weights that it started from, by 5.2 points."
    results.get_by_role("button", name="Copy results as CSV").click()
    results.locator(".bar span:has-text('2 rows copied')").wait_for()


def test_detections_are_shown_with_their_scores_by_class(
    open_page: Open, coloured_run: Path, tmp_path: Path
) -> None:
    run = _evaluated(coloured_run, tmp_path)
    picture = io.BytesIO()
    Image.new("RGB", (1280, 200), "green").save(picture, "JPEG")
    (run / "evaluation" / "found.jpg").write_bytes(picture.getvalue())
    details = {"per_class": {"<b>dog</b>": 0.25}, "pictures": "found.jpg"}
    result = Run.open(run).results[0]
    write_result(run / "evaluation", replace(result, protocol="detection", metric="AP", details=details))
    results = open_page(refresh_report(run)).locator("#results")
    assert results.locator("img.detections").evaluate("image => image.naturalWidth") == 1280
    assert results.locator("h3").inner_text().startswith("detection, ")
    assert results.locator("table").last.locator("td").all_inner_texts() == ["<b>dog</b>", "25.0 %"]


def test_columns_without_a_value_are_left_out(open_page: Open, coloured_run: Path, tmp_path: Path) -> None:
    run = _evaluated(coloured_run, tmp_path)
    for file in (run / "evaluation").glob("linear-*"):
        file.unlink()
    page = open_page(refresh_report(run))
    assert page.locator("#results th").all_inner_texts() == ["protocol", "encoder", "pixels"]


def test_words_are_explained_to_people_who_have_never_heard_them(
    open_page: Open, coloured_page: Path
) -> None:
    page = open_page(coloured_page)
    assert "away from all others, which are called its negatives" in page.locator("#hardest").inner_text()
    assert "of the same thing should not be pushed apart" in page.locator("#false").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(
    open_page: Open, coloured_run: Path, tmp_path: Path, width: int
) -> None:
    run = _evaluated(coloured_run, tmp_path)
    write_report([run])
    page = open_page(run / "report.html", viewport={"width": width, "height": 844})
    for fold in page.locator("summary").all():
        fold.click()
    page.mouse.click(*place_of(page, lonely(gallery_of(run / "report.html"), 1)[0]))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        """() => [...document.querySelectorAll("body *:not(.skip)")]
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 1
          || (e.matches(".wide") && e.scrollWidth > e.clientWidth + 1))
        .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`)"""
    )
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(open_page: Open, coloured_page: Path, scheme: str) -> None:
    page = open_page(
        coloured_page, **PHONE | {"viewport": {"width": 360, "height": 740}}, color_scheme=scheme
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 150) == (scheme == "dark")
    image = lonely(gallery_of(coloured_page), 1)[0]
    page.touchscreen.tap(*place_of(page, image))
    assert page.locator(".chosen .near button").count() == 8


@pytest.mark.parametrize("width", [390, 1280])
def test_captions_and_their_weights_are_shown_and_no_image_is_said_to_be_pushed_from_images(
    open_page: Open, captioned: Path, shapes: Path, tmp_path: Path, width: int
) -> None:
    run = Path(shutil.copytree(captioned, tmp_path / "run"))
    values = {"data": f"pairs:{shapes}/train.jsonl", "protocol": ("captions",), "workers": 0}
    evaluate_run(run, {**values, "baselines": ()})
    written, missing = write_report([run])
    assert not missing
    page = open_page(written, viewport={"width": width, "height": 900})
    words = page.locator("#captions")
    weighed = words.locator("table").first
    assert weighed.locator("th").all_inner_texts() == [
        "caption of the image",
        "cosine",
        "captions that weigh most",
    ]
    assert weighed.locator("tbody tr").count() == 12
    cosine = weighed.locator("tbody td").nth(1)
    assert re.fullmatch(r"-?[01]\.\d\d", cosine.inner_text())
    lines = page.evaluate(
        """() => [...document.querySelectorAll("#captions table tr")].map((row) => {
          const range = document.createRange();
          range.selectNodeContents(row.children[1]);
          return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
        })"""
    )
    assert lines[:2] == [1, 1]  # neither the heading nor a number is broken
    assert page.locator("#hardest, #false, #weights").count() == 0
    assert page.locator("#duplicates").count() == 1
    assert "pushed" not in page.locator("#map").inner_text()
    charts = page.locator("#curves figcaption b").all_inner_texts()
    assert "scale of the cosines" in charts  # this run is too small to measure what finds what
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
