// Elements. Whatever a text contains, it becomes text: nothing here ever parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings become text nodes. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const tip = document.getElementById("tip");

/** Shows the tooltip with some children near a place in the window, inside of it. */
function showTip(x, y, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
  const top = y + 16 + height > innerHeight ? y - 16 - height : y + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  tip.hidden = true;
}

/** A number for people: four digits that matter. */
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

/** Two digits that matter: for weights. */
function rough(value) {
  return short(Number(value.toPrecision(2)));
}

const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7", "ink"];

/** A colour of the palette (Okabe and Ito's, which colour-blind people can tell apart); ink follows the theme. */
function colour(number) {
  const name = PALETTE[number % PALETTE.length];
  return name === "ink" ? getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() : name;
}
