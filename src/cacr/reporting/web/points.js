// Points in the unit square: finding the one under the pointer, and how a group of them looks.

const CELLS = 128;

/** An index of points by the cell of a grid they lie in, so that hovering costs the same for any number. */
class PointGrid {
  /** places: x and y of each point in turn, from 0 to 65535. */
  constructor(places) {
    this.count = places.length / 2;
    this.x = new Float32Array(this.count);
    this.y = new Float32Array(this.count);
    const cells = new Uint32Array(this.count);
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    for (let i = 0; i < this.count; i++) {
      this.x[i] = places[2 * i] / 65535;
      this.y[i] = places[2 * i + 1] / 65535;
      cells[i] = cellOf(this.y[i]) * CELLS + cellOf(this.x[i]);
      this.starts[cells[i] + 1]++;
    }
    for (let c = 0; c < CELLS * CELLS; c++) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice();
    this.items = new Uint32Array(this.count);
    for (let i = 0; i < this.count; i++) this.items[next[cells[i]]++] = i;
  }

  /** The nearest visible point within a radius, or -1. */
  nearest(x, y, radius, visible) {
    let best = -1, least = radius * radius;
    for (let row = cellOf(y - radius); row <= cellOf(y + radius); row++) {
      for (let column = cellOf(x - radius); column <= cellOf(x + radius); column++) {
        const cell = row * CELLS + column;
        for (let k = this.starts[cell]; k < this.starts[cell + 1]; k++) {
          const i = this.items[k];
          const distance = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
          if (distance <= least && visible[i]) [best, least] = [i, distance];
        }
      }
    }
    return best;
  }
}

function cellOf(value) {
  return Math.min(CELLS - 1, Math.max(0, Math.floor(value * CELLS)));
}

/** Draws the mark of a group: seven colours, then the same colours as rings, crosses and triangles. */
function drawMark(context, group, x, y, radius) {
  const shape = Math.floor(group / PALETTE.length) % 4;
  context.fillStyle = context.strokeStyle = colour(group);
  context.lineWidth = Math.max(1, radius * 0.55);
  context.beginPath();
  if (shape === 0) context.arc(x, y, radius, 0, 7);
  if (shape === 1) context.arc(x, y, radius * 0.85, 0, 7);
  if (shape === 2) {
    context.moveTo(x - radius, y - radius);
    context.lineTo(x + radius, y + radius);
    context.moveTo(x - radius, y + radius);
    context.lineTo(x + radius, y - radius);
  }
  if (shape === 3) {
    context.moveTo(x, y - radius * 1.15);
    context.lineTo(x + radius * 1.1, y + radius * 0.85);
    context.lineTo(x - radius * 1.1, y + radius * 0.85);
    context.closePath();
  }
  if (shape === 1 || shape === 2) context.stroke();
  else context.fill();
}

/** The mark of each group as a small picture: stamping is much faster than drawing. */
function stamps(groups, radius, density) {
  const side = Math.ceil((radius * 2.6 + 2) * density);
  const made = [];
  for (let group = 0; group < Math.min(groups, PALETTE.length * 4); group++) {
    const canvas = make("canvas", { width: side, height: side });
    const context = canvas.getContext("2d");
    context.globalAlpha = 0.85;
    drawMark(context, group, side / 2, side / 2, radius * density);
    made.push(canvas);
  }
  return made;
}
