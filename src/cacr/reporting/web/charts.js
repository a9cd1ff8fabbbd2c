// Curves: one chart for each figure, a line for each run, so that several runs share their axes.

const WIDTH = 380, HEIGHT = 220, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 34;
const DASHES = ["", "7 3", "2 2", "9 3 2 3", "4 4", "12 4"];

/** Round numbers from low to high, about four of them. */
function ticks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

function extent(values, zero) {
  const known = values.filter((v) => v !== null);
  let low = Math.min(...known, ...(zero ? [0] : [])), high = Math.max(...known, ...(zero ? [0] : []));
  if (low === high) [low, high] = [zero ? low : low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const room = (high - low) * 0.05;
  return [zero && low === 0 ? 0 : low - room, high + room];
}

/** The path of a curve; a value that is not known interrupts it. */
function pathOf(series, x, y) {
  let path = "", pen = "M";
  series.y.forEach((value, i) => {
    if (value === null) pen = "M";
    else {
      path += `${pen}${x(series.x[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  });
  return path;
}

function bandOf(series, spread, x, y) {
  const places = series.y.map((v, i) => i).filter((i) => series.y[i] !== null && (spread.y[i] ?? null) !== null);
  const up = places.map((i) => `${x(series.x[i]).toFixed(1)} ${y(series.y[i] + spread.y[i]).toFixed(1)}`);
  const down = places.map((i) => `${x(series.x[i]).toFixed(1)} ${y(series.y[i] - spread.y[i]).toFixed(1)}`);
  return up.length > 1 ? `M${up.join("L")}L${down.reverse().join("L")}Z` : "";
}

function chart(spec, runs) {
  const lines = runs
    .map((run, number) => ({ run, number, series: run.series[spec.figure] }))
    .filter(({ series }) => series && series.y.some((v) => v !== null));
  if (!lines.length) return null;
  const of = (figure) => (figure ? lines.map(({ run }) => run.series[figure]).filter(Boolean) : []);
  const references = [...new Map(runs.map(({ reference }) => [reference?.name, reference?.series[spec.figure]])).values()].filter(Boolean);
  const all = [...lines.map(({ series }) => series), ...of(spec.bound), ...references];
  const spreads = lines.flatMap(({ run, series }) => {
    const spread = spec.spread ? run.series[spec.spread] : null;
    return spread ? series.y.flatMap((v, i) => (v === null ? [] : [v - (spread.y[i] ?? 0), v + (spread.y[i] ?? 0)])) : [];
  });
  const [x0, x1] = extent(all.flatMap((s) => s.x), true);
  const [y0, y1] = extent([...all.flatMap((s) => s.y), ...spreads], spec.zero);
  const x = (v) => LEFT + ((v - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const y = (v) => HEIGHT - BOTTOM - ((v - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "img", "aria-label": `${spec.title} against epochs; arrow keys read values` });
  for (const v of ticks(y0, y1)) {
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(v), y2: y(v) }));
    svg.append(draw("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  }
  for (const v of ticks(x0, x1)) svg.append(draw("text", { x: x(v), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, short(v)));
  svg.append(draw("text", { x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, "epoch"));
  svg.append(draw("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
  for (const s of references) svg.append(draw("path", { class: "reference", d: pathOf(s, x, y) }));
  for (const s of of(spec.bound)) svg.append(draw("path", { class: "bound", d: pathOf(s, x, y) }));
  for (const { run, number, series } of lines) {
    const ink = number % PALETTE.length === 6 ? "currentColor" : colour(number);
    if (spec.spread && run.series[spec.spread]) {
      svg.append(draw("path", { class: "band", fill: ink, d: bandOf(series, run.series[spec.spread], x, y) }));
    }
    svg.append(draw("path", { class: "line", stroke: ink, "stroke-dasharray": DASHES[number % DASHES.length], d: pathOf(series, x, y) }));
    if (series.x.length === 1) svg.append(draw("circle", { cx: x(series.x[0]), cy: y(series.y[0]), r: 3, fill: ink }));
  }
  addReader(svg, spec, lines, references, x);
  return make("figure", { class: "chart", "data-figure": spec.figure }, make("figcaption", {}, make("b", {}, spec.title), make("span", {}, spec.about)), svg);
}

/** Reads the values at the pointer, or with the arrow keys when the chart has the focus. */
function addReader(svg, spec, lines, references, x) {
  const cross = draw("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  svg.append(cross);
  const epochs = [...new Set(lines.flatMap(({ series }) => series.x))].sort((a, b) => a - b);
  let place = epochs.length - 1;
  const nearest = (list, value) => list.reduce((best, v, i) => (Math.abs(v - value) < Math.abs(list[best] - value) ? i : best), 0);
  const at = (series, epoch) => short(series.y[nearest(series.x, epoch)]);
  const read = (clientX, clientY) => {
    const epoch = epochs[place];
    cross.setAttribute("x1", x(epoch));
    cross.setAttribute("x2", x(epoch));
    cross.setAttribute("visibility", "visible");
    const going = ({ x }) => epoch <= x.at(-1); // a run that has ended by then has no value
    const rows = lines.filter(({ series }) => going(series)).map(({ run, series }) => {
      const bound = spec.bound && run.series[spec.bound] ? spec.beside + at(run.series[spec.bound], epoch) : "";
      return make("div", {}, `${lines.length > 1 ? run.name + ": " : ""}${at(series, epoch)}${bound}`);
    });
    rows.push(...references.filter(going).map((series) => make("div", {}, `reference: ${at(series, epoch)}`)));
    showTip(clientX, clientY, make("b", {}, `${spec.title}, epoch ${short(epoch)}`), ...rows);
  };
  const leave = () => {
    cross.setAttribute("visibility", "hidden");
    hideTip();
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    place = nearest(epochs.map(x), ((event.clientX - box.left) / box.width) * WIDTH);
    read(event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -epochs.length, End: epochs.length }[event.key];
    if (event.key === "Escape") leave();
    if (!move) return;
    event.preventDefault();
    place = Math.min(epochs.length - 1, Math.max(0, place + move));
    const box = svg.getBoundingClientRect();
    read(box.left + (x(epochs[place]) / WIDTH) * box.width, box.top + box.height / 3);
  });
}

/** Which line is which run; a run alone needs no legend. */
function legend(runs) {
  const entry = (name, attributes) =>
    make("li", {}, draw("svg", { width: 34, height: 10, "aria-hidden": "true" }, draw("line", { x1: 0, x2: 34, y1: 5, y2: 5, "stroke-width": 2, ...attributes })), name);
  const entries = runs.length < 2 ? [] : runs.map((run, n) => entry(run.name, { stroke: n % PALETTE.length === 6 ? "currentColor" : colour(n), "stroke-dasharray": DASHES[n % DASHES.length] }));
  const references = new Set(runs.map((run) => run.reference?.name).filter(Boolean));
  for (const name of references) entries.push(entry(`reference: ${name}`, { stroke: "currentColor", "stroke-width": 4, opacity: 0.35 }));
  return entries.length ? make("ul", { class: "legend" }, entries) : null;
}
