// Pictures out of the two sheets, and the sections that are made of them.

/** Makes elements that show a cell of a sheet; the sheet's bytes are decoded by the browser once. */
function pictureMaker(sheet) {
  if (!sheet) return () => null;
  const [head, body] = sheet.source.split(",");
  const blob = new Blob([bytes(body)], { type: head.match(/image\/\w+/)[0] });
  const url = `url("${URL.createObjectURL(blob)}")`;
  return (cell, side, label) => {
    const left = (cell % sheet.columns) * side, top = Math.floor(cell / sheet.columns) * side;
    const picture = make("span", { class: "picture", role: "img", "aria-label": label });
    Object.assign(picture.style, {
      width: `${side}px`,
      height: `${side}px`,
      backgroundImage: url,
      backgroundSize: `${sheet.columns * side}px ${sheet.rows * side}px`,
      backgroundPosition: `-${left}px -${top}px`,
    });
    return picture;
  };
}

function noPicture(side) {
  const none = make("span", { class: "picture none", "aria-label": "no thumbnail in this file" }, "no picture");
  Object.assign(none.style, { width: `${side}px`, height: `${side}px` });
  return none;
}

/** A bar over a picture: what it weighs against the others. */
function weightBar(gallery, item, most, kind) {
  const column = make("i");
  column.style.height = `${Math.max(1, (100 * item.weight) / most)}%`;
  const what = kind === "towards" ? "positive" : "negative";
  return make("div", { class: `weight ${kind}` }, make("div", { class: "column" }, column), gallery.large(item.cell, 48, `${what}, weight ${rough(item.weight)}`), make("div", {}, rough(item.weight)));
}

function weightsSection(gallery, figure) {
  const rows = figure.queries.map((query) => {
    const pulls = Math.max(...query.positives.map((p) => p.weight));
    const pushes = Math.max(...query.most.map((n) => n.weight), 0);
    const part = (title, items, most, kind) => (items.length ? [make("h4", {}, title), make("div", { class: "weights" }, items.map((item) => weightBar(gallery, item, most, kind)))] : []);
    return make(
      "div",
      { class: "query" },
      make("div", {}, make("h4", {}, "query"), gallery.large(query.cell, 80, `query ${gallery.names[query.image]}`)),
      make(
        "div",
        {},
        part("positives and π⁺", query.positives, pulls, "towards"),
        part("negatives that weigh most, and π⁻", query.most, pushes, "away"),
        part("negatives that weigh least", query.least, pushes, "away low")
      )
    );
  });
  return rows.length ? [make("div", { class: "queries" }, rows)] : [make("p", { class: "soft" }, "There are too few images for a query with negatives.")];
}

/** A list of pairs, and the same as a table to copy. */
function pairList(gallery, pairs, value, unit) {
  if (!pairs.length) return [make("p", { class: "soft" }, "None was found.")];
  const item = (image) =>
    make("div", {}, gallery.large(gallery.largeOf[image], 96, gallery.names[image]), make("span", { class: "label" }, gallery.labelOf(image)), make("span", { class: "name" }, gallery.names[image]));
  const rows = pairs.map(([a, b, v]) => [gallery.names[a], gallery.labelOf(a), gallery.names[b], gallery.labelOf(b), short(v)]);
  return [
    make("ul", { class: "pairs" }, pairs.map(([a, b, v]) => make("li", {}, make("div", { class: "both" }, item(a), item(b)), make("div", {}, value(v))))),
    make("details", {}, make("summary", {}, "As a table"), table(["first", "label", "second", "label", unit], rows, { label: `pairs by ${unit}` })),
  ];
}
