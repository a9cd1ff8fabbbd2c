"""The report page with 50,000 points: its size, and how long hovering takes in a browser.

    python benchmarks/report.py PAGE.html [--moves N] [--chromium PATH]

PAGE is what `cacr report RUN` wrote. Claims, printed with what was found: the file has less than 15 MB, and from
the pointer's move to the thumbnail on the screen pass less than 100 ms. The pointer goes to points drawn at
random; the time is that of the page's own handler, of the layout it causes, and of the frame that shows it.
"""

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

MOVE = """async (moves) => {
  const canvas = document.querySelector(".map canvas:not(.over)"), times = [];
  canvas.scrollIntoView({ block: "center" });
  const count = JSON.parse(document.getElementById("gallery").textContent).count;
  let found = 0;
  for (let i = 0; i < moves; i++) {
    const image = Math.floor((count * ((i * 0.618034) % 1)));
    const [clientX, clientY] = canvas.placeOf(image);
    await new Promise((done) => requestAnimationFrame(done));
    const start = performance.now();
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, pointerId: 1 }));
    found += !document.getElementById("tip").hidden;
    document.getElementById("tip").getBoundingClientRect();
    const handled = performance.now();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push([handled - start, performance.now() - start]);
  }
  return { times, found, count };
}"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    arguments = parser.parse_args()
    if arguments.page is None:
        print("give a page: cacr report RUN --out PAGE.html, then cacr bench report PAGE.html")
        return 0
    size = arguments.page.stat().st_size
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=flags)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(arguments.page.resolve().as_uri())
        page.wait_for_selector("body[data-ready=yes]")
        ready = page.evaluate("performance.now()")
        found = page.evaluate(MOVE, arguments.moves)
        browser.close()
    handled, shown = (sorted(times) for times in zip(*found["times"], strict=True))
    late = round(0.95 * (len(shown) - 1))
    print(f"points             {found['count']:,}")
    print(f"size               {size / 1e6:.1f} MB            claim: under 15")
    print(f"open               {ready:.0f} ms")
    print(f"hover, handler     {statistics.median(handled):.1f} ms median, {handled[late]:.1f} ms at 95 %")
    print(
        f"hover, on screen   {statistics.median(shown):.1f} ms median, {shown[late]:.1f} ms at 95 %   claim: under 100"
    )
    print(f"found a point      {found['found']} of {arguments.moves} moves")
    return int(size >= 15e6 or shown[late] >= 100)


if __name__ == "__main__":
    sys.exit(main())
