{
  const { runs, metrics, above } = read(), find = (id) => document.getElementById(id);
  const filters = ["task", "mapping", "loss", "scale", "seed"];
  const columns = ["run", "value", "metric", "task", "mapping", "loss", "settings", "scale", "seed", "finished"];
  const [metric, words, grouped, table] = ["metric", "words", "grouped", "table"].map(find);
  const open = new Set(), paged = new Set(), chosen = () => location.hash.slice(1), order = { by: "finished", descending: true };
  const compare = (x, y) => {
    if (x == null || y == null) return (x == null) - (y == null);
    return typeof x === "number" ? x - y : String(x).localeCompare(y);
  };

  // Describes runs, or groups of runs that differ in their seed only, as rows.
  const rowsOf = (found) => {
    const groups = new Map();
    for (const run of found) {
      const key = grouped.checked ? run.group : run.run;
      groups.set(key, [...(groups.get(key) || []), run]);
    }
    return [...groups.values()].map((members) => {
      const [first] = members.sort((a, b) => a.seed - b.seed), name = metric.value || first.main;
      const values = members.map((run) => run.metrics[name]).filter((value) => value !== undefined);
      const mean = values.reduce((a, b) => a + b, 0) / values.length;
      const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
      const shown = [mean, Math.sqrt(squares / (values.length - 1))].slice(0, values.length);
      const text = shown.map((one) => one.toFixed(metrics[name].digits)).join(" ± ");
      const seeds = members.map((run) => run.seed ?? "—");
      if (seeds.length > 3) seeds.splice(1, seeds.length - 2, "…");
      const finished = members.map((run) => run.finished).sort().at(-1), several = members.length > 1;
      return { ...first, metric: name, value: values.length ? mean : null, finished, members, several,
        texts: { value: text || "—", seed: seeds.join(", "), finished: finished.slice(0, 16).replace("T", " ") } };
    });
  };
  const line = (row, inner = false) => {
    const made = add(table.tBodies[0], "tr", "", { class: inner ? "inner" : "", ...(row.several ? {} : { id: row.run }) });
    if (made.id && made.id === chosen()) made.ariaCurrent = "true";
    for (const key of columns) {
      const cell = add(made, "td", "", { class: ["value", "seed"].includes(key) ? "" : `label ${key}` });
      if (key === "run" && row.several) {
        const attributes = { type: "button", "aria-expanded": open.has(row.group) };
        add(cell, "button", `${row.members.length} seeds`, attributes).addEventListener("click", () => {
          if (!open.delete(row.group)) open.add(row.group);
          show();
        });
      } else if (key === "run") {
        add(cell, "a", row.run, { href: `${above}${row.scale}/records/${row.run}.json` });
        if (paged.has(row.run)) add(cell, "a", "page", { href: `${above}${row.scale}/pages/${row.run}.html`, class: "more" });
      } else add(cell, "span", row.texts[key] ?? row[key] ?? "—");
    }
  };
  const show = () => {
    const typed = words.value.toLowerCase();
    const found = runs.filter((run) => JSON.stringify(run).toLowerCase().includes(typed) &&
      filters.every((key) => !find(key).value || String(run[key]) === find(key).value));
    find("count").textContent = `${found.length} of ${runs.length} runs`;
    table.tHead.rows[0].replaceChildren();
    for (const key of columns) {
      const sorted = key === order.by ? { "aria-sort": order.descending ? "descending" : "ascending" } : {};
      const head = add(table.tHead.rows[0], "th", "", { scope: "col", class: ["value", "seed"].includes(key) ? "" : "label", ...sorted });
      add(head, "button", key, { type: "button" }).addEventListener("click", () => {
        Object.assign(order, { by: key, descending: key === order.by && !order.descending });
        show();
      });
    }
    table.tBodies[0].replaceChildren();
    const sign = order.descending ? -1 : 1;
    for (const row of rowsOf(found).sort((a, b) => sign * compare(a[order.by], b[order.by]))) {
      line(row);
      if (row.several && open.has(row.group)) for (const run of row.members) line(rowsOf([run])[0], true);
    }
  };
  for (const key of filters) {
    const list = add(add(find("filters"), "label", key + " "), "select", "", { id: key });
    add(list, "option", "all", { value: "" });
    const values = new Set(runs.map((run) => run[key]).filter((value) => value !== null));
    for (const value of [...values].sort(compare)) add(list, "option", value);
  }
  for (const name of Object.keys(metrics)) add(metric, "option", name);
  // Shows the run that the address names.
  const follow = () => {
    const run = runs.find((one) => one.run === chosen());
    if (run) open.add(run.group);
    show();
    if (run) find(run.run)?.scrollIntoView({ block: "center" });
  };
  document.querySelectorAll(".controls").forEach((one) => one.addEventListener("input", show));
  addEventListener("hashchange", follow);
  follow();
  // A scale has pages of those runs whose folders `repro report` found; the site has them all.
  globalThis.addPages = (found) => {
    found.forEach((run) => paged.add(run));
    show();
  };
  for (const scale of new Set(runs.map((run) => run.scale))) add(document.head, "script", "", { src: `${above}${scale}/pages/list.js` });
}
