{
  const { runs: every, metrics, tests, first } = read();
  const runs = Object.fromEntries(every.map((run) => [run.id, run]));
  const list = document.getElementById("add"), groups = {};
  for (const { id, label, group } of every) {
    groups[group] ??= add(list, "optgroup", "", { label: group });
    add(groups[group], "option", `${label} · ${id}`, { value: id });
  }
  let chosen = [];
  const difference = (value, base, digits) => {
    const text = (value - base).toFixed(digits);
    return Number(text) === 0 ? (0).toFixed(digits) : value > base ? "+" + text : text.replace("-", "−");
  };
  const significance = (p) => p === undefined ? "" : p < 0.001 ? ", p < 0.001" : `, p = ${p.toFixed(3)}`;
  const fill = (id, title, rows) => {
    const table = document.getElementById(id);
    table.replaceChildren();
    const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
    add(head, "th", title, { scope: "col", class: "label" });
    for (const name of chosen) {
      const cell = add(head, "th", "", { scope: "col" });
      add(cell, ...(runs[name].page ? ["a", runs[name].label, { href: runs[name].page }] : ["span", runs[name].label]));
    }
    const widest = Math.max(...rows.flatMap((cells) => cells.slice(1).map(({ more = "" }) => more.length)));
    for (const [name, ...cells] of rows) {
      const row = add(body, "tr");
      const label = add(row, "th", "", { scope: "row", class: "label" });
      name.split(/(?<=[/_.])/).forEach((part) => { label.append(part); add(label, "wbr"); });
      cells.forEach(({ text, more = "", best = false }, n) => {
        const cell = add(row, "td", text, { class: best ? "best" : "" });
        if (n && widest > 0) add(cell, "span", more, { class: "more", style: `min-width: ${widest}ch` });
      });
    }
    if (!rows.length) add(add(body, "tr"), "td", "no difference", { class: "label", colspan: chosen.length + 1 });
  };
  const show = () => {
    history.replaceState(null, "", "#" + chosen.join(","));
    const picked = chosen.map((name) => runs[name]);
    const all = (key) => [...new Set(picked.flatMap((run) => Object.keys(run[key])))];
    fill("metrics", "metric", Object.keys(metrics).filter((key) => all("metrics").includes(key)).map((key) => {
      const { higher } = metrics[key], base = picked[0].metrics[key];
      const known = picked.map((run) => run.metrics[key]).filter((value) => value !== undefined);
      // Show two digits of a value that would be printed as zero.
      const least = Math.min(...known.map(Math.abs).filter(Boolean)), usual = metrics[key].digits;
      const digits = least < 0.5 * 10 ** -usual ? Math.min(4, Math.ceil(-Math.log10(least)) + 1) : usual;
      const best = higher === null || known.length < 2 ? null : higher ? Math.max(...known) : Math.min(...known);
      const arrow = { true: " ↑", false: " ↓" }[higher] || "";
      return [key + arrow, ...picked.map((run, n) => {
        const value = run.metrics[key], p = ((tests[chosen[0]] || {})[key] || {})[chosen[n]];
        if (value === undefined) return { text: "—" };
        const more = n && base !== undefined ? difference(value, base, digits) + significance(p) : "";
        return { text: value.toFixed(digits), more, best: value === best };
      })];
    }));
    fill("settings", "setting", all("settings")
      .map((key) => [key, ...picked.map((run) => ({ text: run.settings[key] ?? "—" }))])
      .filter(([, ...cells]) => new Set(cells.map(({ text }) => text)).size > 1));
    const drawn = picked.filter((run) => Object.keys(run.y).length);
    document.getElementById("training").hidden = !drawn.length;
    drawCharts(document.getElementById("curves"), drawn);
    const named = document.getElementById("chosen");
    named.replaceChildren();
    for (const name of chosen) {
      const button = add(add(named, "li", runs[name].label + " · " + name + " "), "button", "×", { type: "button", "aria-label": `leave out ${name}` });
      button.disabled = chosen.length < 3;
      button.addEventListener("click", () => { chosen = chosen.filter((one) => one !== name); show(); });
    }
    for (const option of list.options) option.disabled = chosen.includes(option.value);
    list.value = "";
    document.getElementById("command").textContent = "repro compare " + chosen.join(" ");
  };
  const start = () => {
    chosen = [...new Set(location.hash.slice(1).split(","))].filter((name) => runs[name]);
    if (!chosen.length) chosen = [...first];
    // A link that names one run: its neighbor in the list is the other.
    const options = [...list.options].map((option) => option.value).slice(1), at = options.indexOf(chosen[0]);
    if (chosen.length < 2 && options.length > 1) chosen.push(options[at + 1] ?? options[at - 1]);
    show();
  };
  list.addEventListener("change", () => { chosen.push(list.value); show(); });
  addEventListener("hashchange", start);
  start();
}
