"use strict";
// Adds an element with a text and attributes to another one.
const add = (parent, name, text = "", attributes = {}) => {
  const space = name === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI;
  const made = document.createElementNS(space, name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
};
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const short = (value) => String(Number(value.toPrecision(4))).replace("-", "−");

const WIDTH = 340, HEIGHT = 190, LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 34;

// Returns round values between two others; between powers of ten on a logarithmic axis.
const ticksOf = (low, high, log) => {
  if (log) {
    const powers = [];
    for (let k = Math.floor(Math.log10(low)); 10 ** k <= high; k++) powers.push(10 ** k);
    for (const digits of [[1, 2, 5], [1]]) {
      const found = powers.flatMap((power) => digits.map((n) => n * power)).filter((v) => v >= low && v <= high);
      if (found.length > 1 && found.length < 7) return found;
    }
  }
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, n) => (first + n) * step);
};

// Draws the axes of a chart around points [x, y]; returns the function that places a point.
const drawAxes = (svg, points, title, log = false) => {
  const [x, y] = [0, 1].map((part) => {
    const values = points.map((point) => point[part]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const pad = low < high ? 0 : Math.abs(low) / 10 || 1;
    return [low - pad, high + pad];
  });
  const scale = log ? Math.log10 : (value) => value;
  const share = (value, [low, high]) => (value - low) / (high - low);
  const place = (a, b) => [
    LEFT + (WIDTH - LEFT - RIGHT) * share(a, x),
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(scale(b), y.map(scale)),
  ];
  for (const value of ticksOf(...y, log)) {
    const [, height] = place(x[0], value);
    add(svg, "line", "", { x1: LEFT, x2: WIDTH - RIGHT, y1: height, y2: height });
    add(svg, "text", short(value), { x: LEFT - 5, y: height + 4, class: "end" });
  }
  for (const value of ticksOf(...x, false))
    add(svg, "text", short(value), { x: place(value, y[0])[0], y: HEIGHT - BOTTOM + 14 });
  add(svg, "text", title, { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4 });
  return place;
};
