// What was measured: a row for each protocol, a column for the encoder and for each baseline.

const ABOUT = {
  encoder: "encoder: what this run has learned",
  start: "start: the weights that it started from",
  untrained: "untrained: the same network before any training",
  scratch: "scratch: the same network, trained from new random weights",
  pixels: "pixels: no network at all",
};

/** The columns that some run has a value in: the order is that of the first run that has them. */
function subjectsOf(runs) {
  const order = Object.keys(ABOUT);
  const found = [...new Set(runs.flatMap((run) => run.results.subjects))];
  return [...order.filter((name) => found.includes(name)), ...found.filter((name) => !order.includes(name))];
}

/** A score that breaks before its spread where there is no room. */
function score(text) {
  const [value, spread] = (text ?? "").split(" ± ");
  return spread === undefined ? value : [make("span", {}, value), " ", make("span", {}, `± ${spread}`)];
}

function resultsTable(runs) {
  const subjects = subjectsOf(runs), several = runs.length > 1;
  const rows = runs.flatMap((run) => run.results.rows);
  const what = (row) => [make("b", {}, row.protocol), ...[`${row.labels}, ${row.measure}`, ...row.about].map((text) => make("span", { class: "fact" }, text))];
  const cells = rows.map((row) => [...(several ? [row.run] : []), what(row), ...subjects.map((name) => score(row.scores[name]))]);
  const copied = [
    ["run", "protocol", "labels", "measure", "about", ...subjects, "data", "judged on", "settings"],
    ...rows.map((row) => [row.run, row.protocol, row.labels, row.measure, row.about.join("; "), ...subjects.map((name) => row.scores[name] ?? ""), row.data, row.judged, row.settings]),
  ];
  const how = rows.map((row) => make("li", {}, make("b", {}, `${several ? `${row.run}, ` : ""}${row.protocol}, ${row.labels}, ${row.measure}`), make("span", { class: "fact" }, `data: ${row.data}`), make("span", { class: "fact" }, `judged on ${row.judged}`), make("span", { class: "fact" }, row.settings)));
  return [
    table([...(several ? ["run"] : []), "protocol", ...subjects], cells, { label: "results", copied, kind: "scores" }),
    make("p", { class: "soft" }, subjects.map((name) => ABOUT[name] ?? name).join("; ") + ". ± is the spread over draws of the labels."),
    make("details", {}, make("summary", {}, "How it was measured: data and settings"), make("ul", { class: "how" }, how)),
  ];
}

/** The best and the worst images of detectors, with what was found on them, and the score in each class. */
function detections(runs) {
  return runs.flatMap((run) => (run.detections ?? []).map((found) => [
    make("h3", {}, `${runs.length > 1 ? `${run.name}: ` : ""}${found.title}`),
    found.source ? make("p", { class: "soft" }, "The best images, then the worst. Green: what is there; blue: found; orange: found where nothing is.") : null,
    found.source ? make("img", { class: "detections", src: found.source, alt: `Images with the boxes of ${found.title}` }) : null,
    found.classes.length ? table(["class", found.metric], found.classes, { label: `${found.title} by class`, copied: [["class", found.metric], ...found.classes] }) : null,
  ]));
}
