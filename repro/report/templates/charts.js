// Draws a chart for each metric of several runs: {id, label, page, x: {epoch, update, time}, y: {metric}}.
const drawCharts = (home, runs) => {
  const HUES = [250, 45, 150, 320, 95, 200, 15, 285], DASHES = ["none", "7 3", "2 2.5", "9 3 2 3"];
  const UNITS = [[7200, 3600, "h"], [600, 60, "min"], [0, 1, "s"]];
  const hidden = new Set();
  const look = (n) => ({
    style: `--hue: ${HUES[n % HUES.length]}`,
    "stroke-dasharray": DASHES[Math.floor(n / HUES.length) % DASHES.length],
  });
  home.replaceChildren();
  const controls = add(home, "p", "", { class: "controls" });
  const field = (name, title, attributes) => {
    const label = add(controls, "label", title + " ");
    return add(label, name, "", attributes);
  };
  const across = field("select", "x axis", { class: "across" });
  for (const name of ["epoch", "update", "time"])
    if (runs.some((run) => run.x[name])) add(across, "option", name);
  const log = field("input", "logarithmic y axis", { type: "checkbox", class: "log" });
  const legend = add(home, "ul", "", { class: "legend" });
  const grid = add(home, "div", "", { class: "curves large" });

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
        near.textContent = `${best.run.label}: ${short(best.value[1])} at ${key} ${short(best.value[0])}`;
        best.line.classList.add("near");
        const [cx, cy] = best.spot;
        for (const [k, v] of Object.entries({ cx, cy, visibility: "visible", ...look(best.n) })) mark.setAttribute(k, v);
      });
    }
  };
  runs.forEach((run, n) => {
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
