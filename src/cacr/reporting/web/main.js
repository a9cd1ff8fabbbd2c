// The page from top to bottom.

const page = json("page");
const main = document.getElementById("main");
const sections = [];

function section(id, title, ...children) {
  sections.push([id, title]);
  main.append(make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), children));
}

/** The verdict with its reasons, which are folded where there is nothing to worry about. */
function verdict(run) {
  const found = run.verdict;
  if (!found) return [make("p", { class: "soft" }, "This run has no verdict: it ran without diagnostics, or is still too short.")];
  const unsure = ["unsure", "?"];
  const signs = { healthy: ["good", "✓"], "not sure yet": unsure, "too few images": unsure };
  const [kind, sign] = signs[found.verdict] ?? ["bad", "⚠"];
  const bullets = (title, lines) => (lines.length ? [make("p", { class: "soft" }, title), make("ul", {}, lines.map((line) => make("li", {}, line)))] : []);
  const earlier = found.history.filter((item, i, list) => i === 0 || item.verdict !== list[i - 1].verdict);
  return [
    make("p", { class: "judged" }, "The training itself: ", make("span", { class: `verdict ${kind}` }, `${sign} ${found.verdict}`)),
    make("details", { open: kind === "bad" }, make("summary", {}, "Why"), ...bullets("Evidence", found.evidence),
      earlier.length > 1 ? make("p", { class: "soft" }, "Over time: " + earlier.map((item) => `${item.verdict} (epoch ${short(item.epoch)})`).join(", ")) : null),
    ...bullets("What to try", found.advice),
  ];
}

/** What to do next, with the command that does it. */
function whatNext({ words, command }) {
  const message = make("span", { class: "soft", role: "status" });
  const copy = () => copyText(command).then(() => (message.textContent = "copied"), (error) => (message.textContent = error.message));
  return make("div", { class: "next" }, make("p", {}, make("b", {}, "What next? "), words), make("div", { class: "command" }, make("code", {}, command), make("button", { type: "button", "aria-label": "Copy the command", onclick: copy }, "Copy"), message));
}

function overview() {
  const cards = page.runs.map((run) =>
    make(
      "div",
      { class: "card" },
      make("h3", {}, page.runs.length > 1 ? `${run.name}: ${run.title}` : run.name),
      make("p", { class: "headline" }, run.headline[0]),
      make("p", {}, run.headline[1]),
      verdict(run),
      make("div", { class: "tiles" }, run.tiles.map(([label, value]) => make("div", { class: "tile" }, make("b", {}, value), make("span", {}, label)))),
      whatNext(run.next)
    )
  );
  section("overview", "In short", make("div", { class: "side-by-side" }, cards));
}

function results() {
  const any = page.runs.some((run) => run.results.rows.length);
  section("results", "Results", any ? [resultsTable(page.runs), detections(page.runs)] : make("p", { class: "soft" }, "Nothing has been evaluated yet. If some images have labels, use `cacr evaluate`."));
}

/** Captions that are taken for another image's, and how images weigh captions; nothing where none were measured. */
function captions() {
  const shown = page.runs.filter((run) => run.captions);
  if (!shown.length) return;
  section(
    "captions",
    "Captions",
    shown.map((run) => [
      shown.length > 1 ? make("h3", {}, run.name) : null,
      make("p", { class: "soft" }, `Measured on ${run.captions.data}. Weights are those of negatives; 1 is what each would weigh if all weighed the same.`),
      make("details", { open: true }, make("summary", {}, "Captions of other images that an image is pushed from hardest"),
        table(["caption of the image", "cosine", "captions that weigh most"], run.captions.weights, { label: "weights of captions", kind: "words" })),
      run.captions.confused.length
        ? make("details", { open: true }, make("summary", {}, "Most confused: the nearest caption is another image's"),
            table(["caption of the image", "taken for"], run.captions.confused, { label: "confused captions", kind: "words" }))
        : null,
    ])
  );
}

function curves() {
  const made = page.charts.map((spec) => chart(spec, page.runs)).filter(Boolean);
  section("curves", "Curves", made.length ? [legend(page.runs), make("div", { class: "charts" }, made)] : make("p", { class: "soft" }, "Nothing has been logged yet."));
}

/** A part of the page for each run, side by side. */
function perRun(gallery, content) {
  return make("div", { class: gallery.maps.length > 1 ? "side-by-side" : "" }, gallery.maps.map((map, number) =>
    make("div", {}, gallery.maps.length > 1 ? make("h3", {}, page.runs[number].name) : null, map.note ? make("p", { class: "soft" }, map.note) : null, content(map))));
}

function weights(gallery) {
  if (withCaptions(page.runs)) return;
  section(
    "weights",
    "Weights of positives and negatives",
    make("p", {}, "How training treats an image, the query: it is pulled towards other views of the same image, its positives, and pushed away from all other images, its negatives."),
    make("p", { class: "soft" }, "A batch of images goes through the run's own views. Bars show how hard a positive pulls and a negative pushes its query; 1 is what each would weigh if all weighed the same."),
    perRun(gallery, (map) => [make("p", { class: "soft" }, `Batch of ${map.weights.batch}; t⁺ = ${short(map.weights.t_pos)}, t⁻ = ${short(map.weights.t_neg)}.`), weightsSection(gallery, map.weights)])
  );
}

function mapSection(gallery) {
  const state = new MapState(gallery);
  state.views = gallery.maps.map((_, number) => new MapView(state, number, page.runs[number].name));
  const of = gallery.count < gallery.total ? `${gallery.count.toLocaleString("en")} drawn from ${gallery.total.toLocaleString("en")}` : `${gallery.count.toLocaleString("en")}`;
  const [bar, groups] = mapControls(state);
  const pictured = gallery.pictured < gallery.count ? `${gallery.pictured.toLocaleString("en")} of them, a random sample and those of the lists below, have a picture.` : "All have a picture: the centre square, as the encoder sees it.";
  section(
    "map",
    "Map of the images",
    make("p", {}, "Every point is an image; images that are near each other look alike to the encoder."),
    bar,
    make("div", { class: "maps" }, state.views.map((view) => view.element)),
    chosenPanel(state, page.runs),
    groups,
    make("p", { class: "soft" }, "Drag to move; click the map, then scroll to zoom. On a touch screen: tap the map, then move it with one finger and zoom with two. Keys: arrows, + and −, 0 for the whole map, N and P for the next and previous image, Enter to choose it, Escape to clear the choice."),
    make("p", { class: "soft" }, `${of} images of ${gallery.data}. ${pictured} Positions come from PCA and t-SNE of at most 3,000 random images; every other image is next to its nearest one. Clusters come from k-means.`),
    gallery.folder ? make("p", { class: "soft" }, `Names are relative to ${gallery.folder}`) : null
  );
}

function pairs(gallery) {
  if (!withCaptions(page.runs)) pushed(gallery);
  section(
    "duplicates",
    "Near-duplicates",
    make("p", { class: "soft" }, "Near neighbours whose pixels, at 32 × 32, correlate by 0.98 or more: perhaps the same picture twice."),
    perRun(gallery, (map) => pairList(gallery, map.lists.duplicates, (v) => `correlation ${v.toFixed(3)}`, "correlation"))
  );
}

/** Images that training pushes apart. */
function pushed(gallery) {
  section(
    "hardest",
    "Hardest negatives",
    make("p", {}, "Training pushes every image away from all others, which are called its negatives. These are the pairs that it has most trouble with: different things that look alike to the network."),
    make("p", { class: "soft" }, "Pairs that the objective pushes apart hardest although their features do not agree; where there are labels, only pairs of different ones. The number says how many times the weight of an average negative, were all images in one batch. In these three lists an image appears at most once, and no pair is in two of them."),
    perRun(gallery, (map) => pairList(gallery, map.lists.hardest, (v) => `× ${rough(v)}`, "relative weight"))
  );
  section(
    "false",
    "Likely false negatives",
    make("p", {}, "Two images of the same thing should not be pushed apart; if training does so, they are false negatives. It has no labels and cannot know, but you can see it here."),
    make("p", { class: "soft" }, "Pairs pushed apart hardest whose features agree (each is among the other's nearest neighbours): perhaps the same thing, which should not be pushed apart. Worth a look by a person who knows the data."),
    perRun(gallery, (map) => pairList(gallery, map.lists.false, (v) => `× ${rough(v)}`, "relative weight"))
  );
}

function settings() {
  const names = [...new Set(page.runs.flatMap((run) => Object.keys(run.settings)))];
  const header = ["setting", ...page.runs.map((run) => run.name)];
  const rows = names.map((name) => [name, ...page.runs.map((run) => run.settings[name] ?? "")]);
  const differs = (row) => page.runs.length > 1 && new Set(row.slice(1)).size > 1;
  const spent = [...new Set(page.runs.flatMap((run) => run.budget.map(([name]) => name)))];
  const budget = spent.map((name) => [name, ...page.runs.map((run) => run.budget.find(([n]) => n === name)?.[1] ?? "")]);
  section("budget", "Budget", budget.length ? table(["spent", ...page.runs.map((run) => run.name)], budget, { label: "budget" }) : make("p", { class: "soft" }, "No encoder has been saved yet."));
  section("settings", "Settings", table(header, rows, { marked: differs, label: "settings" }), page.runs.length > 1 ? make("p", { class: "soft" }, "Settings that differ are in bold.") : null);
}

async function build() {
  const gallery = await Gallery.open();
  overview();
  if (gallery) mapSection(gallery);
  else section("map", "Map of the images", make("p", { class: "soft" }, page.missing));
  results();
  captions();
  if (gallery) pairs(gallery);
  curves();
  if (gallery) weights(gallery);
  settings();
  const names = page.runs.map((run) => run.name).join(", ");
  document.getElementById("top").append(
    make("h1", {}, page.title),
    make("p", { class: "soft" }, names),
    make("nav", { "aria-label": "Sections" }, sections.map(([id, title]) => make("a", { href: `#${id}` }, title)))
  );
  document.getElementById("foot").append(`Written by cacr ${page.version}. This file is complete: it loads nothing from elsewhere.`);
  document.body.dataset.ready = "yes";
}

build().catch((error) => {
  main.append(make("p", { role: "alert" }, `The page could not be drawn: ${error.message}`));
  throw error;
});
