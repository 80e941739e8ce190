"use strict";
{
  const runs = JSON.parse(document.getElementById("runs").textContent);
  const chosen = ["first", "second"].map((id) => document.getElementById(id));
  const add = (parent, name, text = "", attributes = {}) => {
    const space = parent.namespaceURI.endsWith("svg") || name === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI;
    const made = document.createElementNS(space, name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent.appendChild(made);
  };
  const fill = (id, titles, rows, labels) => {
    const table = document.getElementById(id);
    table.replaceChildren();
    const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
    titles.forEach((title, n) => add(head, "th", title, { scope: "col", class: labels.includes(n) ? "label" : "" }));
    for (const row of rows) {
      const line = add(body, "tr");
      row.forEach((text, n) => add(line, n ? "td" : "th", text, { class: labels.includes(n) ? "label" : "" }));
    }
    if (!rows.length) add(add(body, "tr"), "td", "no difference", { class: "label", colspan: titles.length });
  };
  const show = () => {
    const names = chosen.map((list) => list.value), [a, b] = names.map((name) => runs[name]);
    history.replaceState(null, "", "#" + names.join(","));
    const all = (key) => [...new Set([...Object.keys(a[key]), ...Object.keys(b[key])])];
    const difference = (x, y) => {
      const digits = (x.split(".")[1] || "").length, value = (x - y).toFixed(digits);
      return Number(value) === 0 ? (0).toFixed(digits) : value > 0 ? "+" + value : value.replace("-", "−");
    };
    fill("metrics", ["metric", "first", "second", "difference"], all("metrics").sort().map((key) => {
      const [x, y] = [a.metrics[key], b.metrics[key]];
      return [key, x ?? "—", y ?? "—", x && y ? difference(x, y) : ""];
    }), [0]);
    fill("settings", ["setting", "first", "second"], all("settings").sort()
      .map((key) => [key, a.settings[key] ?? "—", b.settings[key] ?? "—"])
      .filter(([, x, y]) => x !== y), [0, 1, 2]);
    const curves = document.getElementById("curves");
    curves.replaceChildren();
    document.getElementById("training").hidden = !all("curves").length;
    for (const key of all("curves")) {
      const both = [a.curves[key] || [], b.curves[key] || []], every = both.flat();
      const [low, high] = [Math.min(...every), Math.max(...every)];
      const figure = add(curves, "figure");
      add(figure, "figcaption", key);
      const svg = add(figure, "svg", "", { viewBox: "0 0 260 90", role: "img", "aria-label": key });
      both.forEach((values, n) => add(svg, "polyline", "", {
        "stroke-dasharray": n ? "5 3" : "none",
        points: values.map((y, x) => [6 + 248 * x / (values.length - 1), 84 - 78 * (y - low) / (high - low || 1)]).join(" "),
      }));
      add(figure, "p", `last ${both.map((values) => values.length ? values.at(-1).toPrecision(4) : "—").join(", ")}`, { class: "place" });
    }
    const links = document.getElementById("links");
    links.replaceChildren();
    names.forEach((name) => { add(links, "a", name, { href: name + ".html" }); links.append(" "); });
    document.getElementById("command").textContent = "repro compare " + names.join(" ");
  };
  const read = () => {
    const wanted = location.hash.slice(1).split(",");
    chosen.forEach((list, n) => { if (runs[wanted[n]]) list.value = wanted[n]; });
    // A link that names one run: its neighbour in the list is the other.
    if (chosen[0].value === chosen[1].value)
      chosen[1].selectedIndex += chosen[1].selectedIndex + 1 < chosen[1].length ? 1 : -1;
    show();
  };
  chosen.forEach((list) => list.addEventListener("change", show));
  addEventListener("hashchange", read);
  read();
}
