// The map: all runs' maps zoom and move together, and show the same image as chosen.

const REACH = 14; // pixels around the pointer in which a point is found
const PREFERRED = 5; // and in which one that has a picture comes before nearer ones that have none

/** What the maps share. */
class MapState {
  constructor(gallery) {
    this.gallery = gallery;
    this.zoom = 1;
    this.centre = [0.5, 0.5];
    this.by = gallery.labels ? "label" : "cluster";
    this.hidden = { label: new Set(), cluster: new Set() };
    this.hovered = -1;
    this.chosen = -1;
    this.views = [];
    this.onchoose = () => {};
  }

  redraw() {
    for (const view of this.views) view.schedule();
  }

  filter() {
    for (const view of this.views) view.updateVisible();
    this.redraw();
  }

  zoomBy(factor, at = this.centre) {
    const zoom = Math.min(200, Math.max(0.5, this.zoom * factor));
    const kept = this.zoom / zoom;
    this.centre = this.centre.map((c, axis) => at[axis] + (c - at[axis]) * kept);
    this.zoom = zoom;
    this.redraw();
  }

  moveBy(dx, dy) {
    this.centre = [this.centre[0] + dx, this.centre[1] + dy].map((c) => Math.min(1.2, Math.max(-0.2, c)));
    this.redraw();
  }

  reset() {
    this.zoom = 1;
    this.centre = [0.5, 0.5];
    this.redraw();
  }

  hover(image) {
    if (image === this.hovered) return;
    this.hovered = image;
    for (const view of this.views) view.drawOver();
  }

  choose(image) {
    this.chosen = image;
    for (const view of this.views) view.drawOver();
    this.onchoose(image);
  }
}

/** One run's map on a canvas, with a second canvas above it for what changes under the pointer. */
class MapView {
  constructor(state, number, name) {
    this.state = state;
    this.map = state.gallery.maps[number];
    this.grid = new PointGrid(this.map.places);
    this.visible = new Uint8Array(this.grid.count);
    this.pictured = new Uint8Array(this.grid.count);
    this.updateVisible();
    const help = "Map of the images. Arrow keys move, plus and minus zoom, 0 shows all, N and P go through the images, Enter chooses, Escape lets go.";
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": `${name}: ${help}` });
    this.over = make("canvas", { class: "over", "aria-hidden": "true" });
    this.element = make("div", { class: "map" }, make("h3", {}, name), make("div", { class: "stack" }, this.canvas, this.over));
    this.canvas.placeOf = (image) => this.onScreen(image); // for tests and the console
    this.scheduled = false;
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.listen();
  }

  groups() {
    const { gallery, by } = this.state;
    return by === "label" ? { of: gallery.labels, count: gallery.classes.length } : { of: this.map.clusters, count: gallery.clusterCount };
  }

  updateVisible() {
    const { label, cluster } = this.state.hidden;
    const labels = this.state.gallery.labels;
    for (let i = 0; i < this.grid.count; i++) {
      this.visible[i] = !cluster.has(this.map.clusters[i]) && !(labels && label.has(labels[i]));
      this.pictured[i] = this.visible[i] && this.state.gallery.cells[i] >= 0;
    }
    if (this.state.hovered >= 0 && !this.visible[this.state.hovered]) this.state.hover(-1);
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.density = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.over]) {
      canvas.width = Math.round(box.width * this.density);
      canvas.height = Math.round(box.height * this.density);
    }
    this.width = box.width;
    this.height = box.height;
    this.draw();
  }

  /** Pixels that the unit square spans. */
  get side() {
    return Math.min(this.width, this.height) * 0.94 * this.state.zoom;
  }

  toScreen(x, y) {
    const [cx, cy] = this.state.centre;
    return [(x - cx) * this.side + this.width / 2, (y - cy) * this.side + this.height / 2];
  }

  toMap(px, py) {
    const [cx, cy] = this.state.centre;
    return [(px - this.width / 2) / this.side + cx, (py - this.height / 2) / this.side + cy];
  }

  onScreen(image) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.toScreen(this.grid.x[image], this.grid.y[image]);
    return [box.left + x, box.top + y];
  }

  get radius() {
    const few = this.grid.count < 4000 ? 3.4 : this.grid.count < 15000 ? 2.4 : 1.7;
    return few * Math.min(2.5, Math.sqrt(Math.max(1, this.state.zoom)));
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  draw() {
    if (!this.width) return;
    const context = this.canvas.getContext("2d");
    const { of, count } = this.groups();
    const marks = stamps(count + 1, this.radius, this.density);
    const margin = 8;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    for (let i = 0; i < this.grid.count; i++) {
      if (!this.visible[i]) continue;
      const [x, y] = this.toScreen(this.grid.x[i], this.grid.y[i]);
      if (x < -margin || y < -margin || x > this.width + margin || y > this.height + margin) continue;
      const mark = marks[(of[i] === NO_LABEL ? count : of[i]) % marks.length];
      context.drawImage(mark, x * this.density - mark.width / 2, y * this.density - mark.height / 2);
    }
    this.drawOver();
  }

  drawOver() {
    const context = this.over.getContext("2d");
    const { hovered, chosen } = this.state;
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.strokeStyle = colour(6);
    if (chosen >= 0) {
      this.link(context, chosen, this.state.gallery.neighboursOf(this.map, chosen), []);
      this.link(context, chosen, this.state.gallery.pushesOf(this.map, chosen), [3, 3]);
      this.ring(context, chosen, 3);
    }
    if (hovered >= 0) this.ring(context, hovered, 1.5);
  }

  link(context, from, others, dash) {
    const [x, y] = this.toScreen(this.grid.x[from], this.grid.y[from]);
    context.lineWidth = 1;
    context.setLineDash(dash);
    context.beginPath();
    for (const { image } of others) {
      context.moveTo(x, y);
      context.lineTo(...this.toScreen(this.grid.x[image], this.grid.y[image]));
    }
    context.stroke();
    context.setLineDash([]);
  }

  ring(context, image, width) {
    const [x, y] = this.toScreen(this.grid.x[image], this.grid.y[image]);
    context.lineWidth = width;
    context.beginPath();
    context.arc(x, y, this.radius + 4, 0, 7);
    context.stroke();
  }

  imageAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.toMap(event.clientX - box.left, event.clientY - box.top);
    const pictured = this.grid.nearest(x, y, PREFERRED / this.side, this.pictured);
    return pictured >= 0 ? pictured : this.grid.nearest(x, y, REACH / this.side, this.visible);
  }

  point(event) {
    const image = this.imageAt(event);
    this.state.hover(image);
    if (image < 0) hideTip();
    else showTip(event.clientX, event.clientY, ...this.state.gallery.card(image, this.map));
  }

  /** Moves all maps by pixels of this one. */
  moveBy(dx, dy) {
    this.state.moveBy(dx / this.side, dy / this.side);
  }

  listen() {
    const canvas = this.canvas, down = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, [event.clientX, event.clientY]);
      moved = down.size > 1 ? 99 : 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      if (!before) return this.point(event);
      const now = [event.clientX, event.clientY];
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
      if (moved > 4) hideTip();
      if (other) {
        // what lies between two fingers stays between them
        this.moveBy((before[0] - now[0]) / 2, (before[1] - now[1]) / 2);
        const [was, is] = [before, now].map((p) => Math.hypot(p[0] - other[0], p[1] - other[1]));
        const box = canvas.getBoundingClientRect();
        this.state.zoomBy(is / Math.max(1, was), this.toMap((now[0] + other[0]) / 2 - box.left, (now[1] + other[1]) / 2 - box.top));
      } else if (moved > 4 && (event.pointerType !== "touch" || document.activeElement === canvas)) this.moveBy(before[0] - now[0], before[1] - now[1]);
      down.set(event.pointerId, now);
    });
    const up = (event) => {
      if (down.delete(event.pointerId) && moved <= 4 && event.type === "pointerup") {
        this.point(event);
        this.state.choose(this.imageAt(event));
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => {
      this.state.hover(-1);
      hideTip();
    });
    // A page that is being scrolled must not be caught by the map: it zooms once it has the focus.
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (document.activeElement !== canvas && !event.ctrlKey) return;
        event.preventDefault();
        const box = canvas.getBoundingClientRect();
        this.state.zoomBy(Math.exp(-event.deltaY * 0.002), this.toMap(event.clientX - box.left, event.clientY - box.top));
      },
      { passive: false }
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", hideTip);
  }

  key(event) {
    const { state } = this, step = 40;
    const actions = {
      ArrowLeft: () => this.moveBy(-step, 0),
      ArrowRight: () => this.moveBy(step, 0),
      ArrowUp: () => this.moveBy(0, -step),
      ArrowDown: () => this.moveBy(0, step),
      "+": () => state.zoomBy(1.4),
      "=": () => state.zoomBy(1.4),
      "-": () => state.zoomBy(1 / 1.4),
      0: () => state.reset(),
      n: () => this.step(1),
      p: () => this.step(-1),
      Enter: () => state.choose(state.hovered),
      Escape: () => {
        state.choose(-1);
        state.hover(-1);
        hideTip();
      },
    };
    const act = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    act();
  }

  /** The next visible image, by number. */
  step(direction) {
    const count = this.grid.count;
    let image = this.state.hovered >= 0 ? this.state.hovered : this.state.chosen >= 0 ? this.state.chosen : direction > 0 ? -1 : 0;
    for (let tried = 0; tried < count; tried++) {
      image = (image + direction + count) % count;
      if (this.visible[image]) break;
    }
    if (!this.visible[image]) return;
    this.state.hover(image);
    showTip(...this.onScreen(image), ...this.state.gallery.card(image, this.map));
  }
}
