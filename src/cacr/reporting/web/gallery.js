// The images: their names, labels, pictures, neighbours, and the panel of the chosen one.

const NO_LABEL = 65535;

class Gallery {
  /** Unpacks the page's data; null where the page has no images. */
  static async open() {
    const packed = json("gallery");
    return packed ? new Gallery(packed, await texts(packed.names)) : null;
  }

  constructor(packed, names) {
    this.names = names;
    this.data = packed.data;
    this.folder = packed.folder;
    this.count = packed.count;
    this.total = packed.total;
    this.classes = packed.classes;
    this.labels = packed.labels ? numbers(packed.labels, Uint16Array) : null;
    this.thumbnail = pictureMaker(packed.thumbnails);
    this.large = pictureMaker(packed.large);
    this.largeOf = packed.large_of;
    const sample = numbers(packed.sample, Uint16Array);
    this.pictured = sample.length;
    this.cells = new Int32Array(this.count).fill(-1);
    sample.forEach((image, cell) => (this.cells[image] = cell));
    this.maps = packed.maps.map((map) => ({
      ...map,
      places: numbers(map.places, Uint16Array),
      clusters: numbers(map.clusters, Uint8Array),
      neighbours: numbers(map.neighbours, Uint16Array),
      cosines: numbers(map.cosines, Int8Array),
      pushes: numbers(map.pushes, Uint16Array),
      weightsLog: numbers(map.weights_log, Uint16Array),
    }));
    this.clusterCount = 1 + this.maps.reduce((most, map) => map.clusters.reduce((a, b) => Math.max(a, b), most), 0);
  }

  labelOf(image) {
    if (!this.labels) return "";
    return this.labels[image] === NO_LABEL ? "no label" : this.classes[this.labels[image]];
  }

  /** The picture of an image, or a frame that says there is none. */
  picture(image, side) {
    const cell = this.cells[image];
    return cell < 0 ? noPicture(side) : this.thumbnail(cell, side, this.names[image]);
  }

  neighboursOf(map, image) {
    return each(map.neighbours_each, image, (k) => ({ image: map.neighbours[k], value: map.cosines[k] / 127 }));
  }

  /** Weights relative to equal ones. */
  pushesOf(map, image) {
    return each(map.pushes_each, image, (k) => ({ image: map.pushes[k], value: Math.exp((map.weightsLog[k] - 32768) / 1000) }));
  }

  /** What the tooltip shows of an image. */
  card(image, map) {
    const label = this.labels ? `${this.labelOf(image)}, ` : "";
    return [make("div", { class: "row" }, this.picture(image, 96), make("div", {}, make("b", {}, this.names[image]), `${label}cluster ${map.clusters[image] + 1}`))];
  }
}

function each(count, image, item) {
  return Array.from({ length: count }, (_, j) => item(image * count + j));
}

/** Whether images were pushed from captions, not from each other. */
function withCaptions(runs) {
  return runs.every((run) => run.reads_captions);
}

/** The chosen image with its nearest neighbours and its hardest pushes, for each run. */
function chosenPanel(state, runs) {
  const panel = make("div", { class: "chosen", role: "region", "aria-label": "Chosen image", "aria-live": "polite" });
  const gallery = state.gallery;
  const images = (list, unit, kind) =>
    make(
      "div",
      { class: `images ${kind}` },
      list.map(({ image, value }) =>
        make("button", { type: "button", class: "image", "data-image": image, title: gallery.names[image], onclick: () => state.choose(image) }, gallery.picture(image, 80), make("span", {}, gallery.labelOf(image) || gallery.names[image]), make("span", { class: "soft" }, `${unit} ${kind === "near" ? value.toFixed(2) : rough(value)}`))
      )
    );
  const show = (image) => {
    if (image < 0) {
      panel.replaceChildren(make("p", { class: "soft" }, `Click a point, or go to it with N and press Enter, to see its nearest neighbours${withCaptions(runs) ? "" : " and what it is pushed from hardest"}.`));
      return;
    }
    const parts = gallery.maps.map((map, number) =>
      make(
        "div",
        { class: "card" },
        gallery.maps.length > 1 ? make("h3", {}, runs[number].name) : null,
        make("h3", {}, "Nearest neighbours, by the cosine of features"),
        images(gallery.neighboursOf(map, image), "cos", "near"),
        withCaptions(runs) ? null : [
          make("h3", {}, "Pushed from hardest: times the weight of an average negative"),
          images(gallery.pushesOf(map, image), "×", "away")
        ]
      )
    );
    panel.replaceChildren(
      make("div", { class: "head" }, gallery.picture(image, 96), make("div", {}, make("p", {}, make("b", {}, gallery.names[image])), make("p", { class: "soft" }, gallery.labelOf(image)), make("button", { type: "button", onclick: () => state.choose(-1) }, "Clear"))),
      make("div", { class: "side-by-side" }, parts)
    );
  };
  state.onchoose = show;
  show(-1);
  return panel;
}

/** Colour by label or cluster, zoom, and which groups are shown. */
function mapControls(state) {
  const gallery = state.gallery;
  const classes = make("div", { class: "classes", role: "group", "aria-label": "Groups that are shown" });
  const find = make("input", { type: "search", placeholder: "find a group", "aria-label": "Find a group", oninput: () => list() });
  const names = () => (state.by === "label" ? gallery.classes : Array.from({ length: gallery.clusterCount }, (_, c) => `cluster ${c + 1}`));
  const counts = () => {
    const lists = state.by === "label" ? [gallery.labels] : gallery.maps.map((map) => map.clusters);
    const found = new Uint32Array(names().length + 1);
    for (const of of lists) of.forEach((group) => found[Math.min(group, names().length)]++);
    return found;
  };
  const list = () => {
    const hidden = state.hidden[state.by], found = counts();
    const shown = names().map((name, group) => ({ name, group })).filter(({ name, group }) => found[group] && name.toLowerCase().includes(find.value.toLowerCase()));
    classes.replaceChildren(
      ...shown.slice(0, 400).map(({ name, group }) => {
        const mark = make("canvas", { width: 24, height: 24, style: "width:12px;height:12px", "aria-hidden": "true" });
        drawMark(mark.getContext("2d"), group % (PALETTE.length * 4), 12, 12, 9);
        const toggle = () => {
          if (!hidden.delete(group)) hidden.add(group);
          button.setAttribute("aria-pressed", String(!hidden.has(group)));
          state.filter();
        };
        const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(group)), title: name, "data-group": group, onclick: toggle }, mark, make("span", {}, name), state.by === "label" || gallery.maps.length === 1 ? make("span", { class: "soft" }, found[group].toLocaleString("en")) : null);
        return button;
      })
    );
    find.hidden = names().length <= 12;
  };
  const all = (show) => {
    const hidden = state.hidden[state.by];
    names().forEach((_, group) => (show ? hidden.delete(group) : hidden.add(group)));
    state.filter();
    list();
  };
  const by = make("select", { "aria-label": "Colour by", onchange: () => { state.by = by.value; state.redraw(); list(); } },
    ["label", "cluster"].filter((name) => name === "cluster" || gallery.labels).map((name) => make("option", { value: name, selected: name === state.by }, `colour by ${name}`)));
  const press = (text, label, action) => make("button", { type: "button", "aria-label": label, onclick: action }, text);
  list();
  const bar = make("div", { class: "map-controls" }, by, press("+", "Zoom in", () => state.zoomBy(1.5)), press("−", "Zoom out", () => state.zoomBy(1 / 1.5)), press("Whole map", "Show the whole map", () => state.reset()), press("Show all", "Show all groups", () => all(true)), press("Hide all", "Hide all groups", () => all(false)), find);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { list(); state.redraw(); });
  return [bar, classes];
}
