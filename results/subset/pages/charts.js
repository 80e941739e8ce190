"use strict";
// Adds an element with a text and attributes to another one.
const add = (parent, name, text = "", attributes = {}) => {
  const space = name === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI;
  const made = document.createElementNS(space, name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
};
const read = () => JSON.parse(document.getElementById("data").textContent);
const short = (value) => String(Number(value.toPrecision(4))).replace("-", "−");

const WIDTH = 340, HEIGHT = 190, LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 34;

// Returns round values between two others; between powers of ten on a logarithmic axis.
const ticksOf = (low, high, log) => {
  const power = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
  if (log && last > power) return Array.from({ length: last - power + 1 }, (_, n) => 10 ** (power + n));
  const rough = (high - low) / 4, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((one) => one >= rough);
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
  const whole = points.every(([a]) => Number.isInteger(a)); // epochs and updates
  for (const value of ticksOf(...x, false).filter((one) => !whole || Number.isInteger(one)))
    add(svg, "text", short(value), { x: place(value, y[0])[0], y: HEIGHT - BOTTOM + 14 });
  add(svg, "text", title, { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4 });
  return place;
};

// Draws a chart for each metric of several runs: {id, label, page, x: {epoch, update, time}, y: {metric}}.
const drawCharts = (home, runs) => {
  const HUES = [250, 45, 150, 320, 95, 200, 15, 285], DASHES = ["none", "7 3", "2 2.5", "9 3 2 3"];
  const UNITS = [[7200, 3600, "h"], [600, 60, "min"], [0, 1, "s"]];
  const hidden = new Set();
  // Runs that differ in their seed only share a color, and differ in their dashes.
  const every = runs.map(({ label }) => label.replace(/,? ?seed[ =]\d+/, ""));
  const kinds = [...new Set(every)], alike = kinds.length > 1;
  const look = (n) => {
    const color = alike ? kinds.indexOf(every[n]) : n;
    const dash = Math.floor(color / HUES.length) + (alike ? every.slice(0, n).filter((kind) => kind === every[n]).length : 0);
    return { style: `--hue: ${HUES[color % HUES.length]}`, "stroke-dasharray": DASHES[dash % DASHES.length] };
  };
  home.replaceChildren();
  const controls = add(home, "p", "", { class: "controls" });
  const across = add(add(controls, "label", "x axis "), "select", "", { class: "across" });
  const log = add(add(controls, "label", "logarithmic y axis "), "input", "", { type: "checkbox", class: "log" });
  for (const name of ["epoch", "update", "time"])
    if (runs.some((run) => run.x[name])) add(across, "option", name);
  const legend = add(home, "ul", "", { class: "legend" });
  const grid = add(home, "div", "", { class: "curves" });

  const draw = () => {
    grid.replaceChildren();
    const key = across.value;
    const last = Math.max(...runs.flatMap((run) => run.x.time || []));
    const [, second, unit] = UNITS.find(([least]) => last >= least) || UNITS[2];
    const title = key === "time" ? `time (${unit})` : key;
    for (const name of new Set(runs.flatMap((run) => Object.keys(run.y)))) {
      const curves = runs.map((run, n) => ({ run, n, points: (run.x[key] || [])
        .map((x, place) => [key === "time" ? x / second : x, (run.y[name] || [])[place] ?? null])
        .filter(([, y]) => y !== null && (y > 0 || !log.checked)) }))
        .filter(({ run, points }) => points.length && !hidden.has(run.id));
      const figure = add(grid, "figure"), caption = add(figure, "figcaption", name + " ");
      const near = add(caption, "output", curves.length ? "" : "nothing to show");
      if (!curves.length) continue;
      const svg = add(figure, "svg", "", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
        "aria-label": `${name} of ${curves.map(({ run }) => run.label).join("; ")}` });
      const place = drawAxes(svg, curves.flatMap(({ points }) => points), title, log.checked);
      const dots = curves.flatMap(({ run, n, points }) => {
        const places = points.map(([x, y]) => place(x, y));
        const line = add(svg, "polyline", "", { points: places.join(" "), ...look(n), "data-run": run.id });
        if (places.length === 1) add(svg, "circle", "", { cx: places[0][0], cy: places[0][1], r: 2.5, ...look(n) });
        return places.map((spot, number) => ({ run, n, line, spot, value: points[number] }));
      });
      const mark = add(svg, "circle", "", { r: 4, visibility: "hidden" });
      const leave = () => {
        near.textContent = "";
        mark.setAttribute("visibility", "hidden");
        svg.querySelectorAll(".near").forEach((line) => line.classList.remove("near"));
      };
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("pointermove", (event) => {
        leave();
        const box = svg.getBoundingClientRect();
        const at = [(event.clientX - box.left) * WIDTH / box.width, (event.clientY - box.top) * HEIGHT / box.height];
        const far = ({ spot }) => Math.hypot(spot[0] - at[0], spot[1] - at[1]);
        const best = dots.reduce((a, b) => (far(b) < far(a) ? b : a));
        near.textContent = `${best.run.label}: ${short(best.value[1])} at ${key} ${short(best.value[0])}${key === "time" ? " " + unit : ""}`;
        best.line.classList.add("near");
        const [cx, cy] = best.spot;
        for (const [k, v] of Object.entries({ cx, cy, visibility: "visible", ...look(best.n) })) mark.setAttribute(k, v);
      });
    }
  };
  if (runs.length > 1) runs.forEach((run, n) => {
    const item = add(legend, "li");
    const button = add(item, "button", "", { type: "button", "aria-pressed": true });
    add(add(button, "svg", "", { viewBox: "0 0 24 8" }), "polyline", "", { points: "0,4 24,4", ...look(n) });
    button.append(run.label);
    button.addEventListener("click", () => {
      if (!hidden.delete(run.id)) hidden.add(run.id);
      button.setAttribute("aria-pressed", !hidden.has(run.id));
      draw();
    });
    item.append(" ");
    if (run.page) add(item, "a", run.id, { href: run.page });
  });
  across.addEventListener("change", draw);
  log.addEventListener("change", draw);
  draw();
};

for (const home of document.querySelectorAll(".charts")) drawCharts(home, JSON.parse(home.nextElementSibling.textContent));
