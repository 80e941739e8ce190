{
  const { runs, scale, digits } = read("runs");
  const filters = ["task", "mapping", "loss", "scale", "seed"];
  const state = { by: "finished", descending: true, open: new Set(), chosen: new Set() };
  const controls = document.getElementById("controls"), table = document.getElementById("table");
  const lists = Object.fromEntries(filters.map((key) => {
    const list = add(add(controls, "label", key + " "), "select", "", { id: key });
    add(list, "option", "all", { value: "" });
    const values = [...new Set(runs.map((run) => run[key]))].filter((value) => value !== null);
    const compare = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(b));
    for (const value of values.sort(compare)) add(list, "option", value);
    list.addEventListener("change", () => show());
    return [key, list];
  }));
  const metric = document.getElementById("metric"), words = document.getElementById("words");
  const grouped = document.getElementById("grouped");
  for (const name of [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))].sort()) add(metric, "option", name);

  // Rows to show: runs, or groups of runs that differ in their seed only.
  const rowsOf = (found) => {
    const rows = found.map((run) => {
      const name = metric.value || run.main;
      return { ...run, metric: name, value: run.metrics[name] };
    });
    if (!grouped.checked) return rows;
    const groups = new Map();
    for (const row of rows) groups.set(row.group, [...(groups.get(row.group) || []), row]);
    return [...groups.values()].map((members) => {
      members.sort((a, b) => a.seed - b.seed);
      const values = members.map((row) => row.value).filter((value) => value !== undefined);
      const mean = values.reduce((a, b) => a + b, 0) / values.length;
      const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
      return { ...members[0], members, value: values.length ? mean : undefined,
        finished: members.map((row) => row.finished).sort().at(-1),
        spread: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : null };
    });
  };
  const columns = ["run", ...filters, "metric", "value", "finished", "settings"];
  const compare = (a, b) => {
    const [x, y] = [a[state.by], b[state.by]];
    if (x == null || y == null) return (x == null) - (y == null);
    return (typeof x === "number" ? x - y : String(x).localeCompare(y)) * (state.descending ? -1 : 1);
  };
  const line = (body, row, inner = false) => {
    const several = row.members?.length > 1, made = add(body, "tr", "", { class: inner ? "inner" : "" });
    const ids = (row.members || [row]).map((one) => one.run);
    const box = add(add(made, "td"), "input", "", { type: "checkbox", "aria-label": "choose " + ids.join(" ") });
    box.checked = ids.every((id) => state.chosen.has(id));
    box.disabled = row.scale !== scale;
    box.addEventListener("change", () => {
      for (const id of ids) state.chosen[box.checked ? "add" : "delete"](id);
      show();
    });
    for (const key of columns) {
      const cell = add(made, "td", "", { class: key === "value" || key === "seed" ? "" : "label" });
      if (key === "run" && several) {
        const open = state.open.has(row.group);
        const button = add(cell, "button", `${ids.length} seeds`, { type: "button", "aria-expanded": open });
        button.addEventListener("click", () => { if (!state.open.delete(row.group)) state.open.add(row.group); show(); });
      } else if (key === "run" && row.page) add(cell, "a", row.run, { href: row.page });
      else if (key === "value" && row.value !== undefined)
        cell.textContent = [row.value, row.spread].filter((one) => one != null).map((one) => one.toFixed(digits[row.metric])).join(" ± ");
      else if (key === "seed" && several) cell.textContent = row.members.map((one) => one.seed).join(", ");
      else if (key === "settings") add(cell, "span", row.settings);
      else cell.textContent = (key === "finished" ? row[key].slice(0, 16).replace("T", " ") : row[key]) ?? "—";
    }
    if (several && state.open.has(row.group)) for (const one of row.members) line(body, one, true);
  };
  const show = () => {
    const typed = words.value.toLowerCase();
    const found = runs.filter((run) =>
      filters.every((key) => !lists[key].value || String(run[key]) === lists[key].value) &&
      Object.values(run).join(" ").toLowerCase().includes(typed));
    const rows = rowsOf(found).sort(compare);
    table.tHead.rows[0].replaceChildren(document.createElement("th"));
    for (const key of columns) {
      const head = add(table.tHead.rows[0], "th", "", { scope: "col", class: key === "value" || key === "seed" ? "" : "label" });
      const button = add(head, "button", key, { type: "button" });
      if (key === state.by) head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      button.addEventListener("click", () => { Object.assign(state, { by: key, descending: key === state.by && !state.descending }); show(); });
    }
    table.tBodies[0].replaceChildren();
    for (const row of rows) line(table.tBodies[0], row);
    document.getElementById("count").textContent = `${found.length} of ${runs.length} runs`;
    const link = document.getElementById("compare");
    link.hidden = state.chosen.size < 2;
    link.textContent = `Compare ${state.chosen.size} chosen runs`;
    link.href = "pages/compare.html#" + [...state.chosen].join(",");
  };
  for (const one of [metric, words, grouped]) one.addEventListener("input", show);
  show();
}
