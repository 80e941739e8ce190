{
  // Sorts a table by the column whose header is activated; the original order comes third.
  const number = (cell) => {
    const found = cell.textContent.replace("−", "-").match(/-?[\d.]+/);
    return found && cell.tagName === "TD" ? parseFloat(found[0]) : null;
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x === null ? 1 : -1;
    return a.textContent.localeCompare(b.textContent);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const bodies = [...table.tBodies].filter((body) => body.rows.length > 1);
    const originals = bodies.map((body) => [...body.rows]);
    const headers = [...table.tHead.querySelector(".titles").cells];
    headers.forEach((header, column) => {
      header.tabIndex = 0;
      header.title = "sort";
      const sort = () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" };
        const order = next[header.getAttribute("aria-sort") || "none"];
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        if (order !== "none") header.setAttribute("aria-sort", order);
        bodies.forEach((body, part) => {
          const rows = [...originals[part]];
          if (order !== "none") rows.sort((a, b) => compare(a.cells[column], b.cells[column]));
          if (order === "descending") rows.reverse();
          body.append(...rows);
        });
      };
      header.addEventListener("click", sort);
      header.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          sort();
        }
      });
    });
  }

  // Says where a table or a drawing is wider than its box.
  const boxes = document.querySelectorAll(".scroll, .drawing");
  const watch = new ResizeObserver((found) => {
    for (const { target } of found)
      target.classList.toggle("cut", target.scrollWidth > target.clientWidth + 1);
  });
  boxes.forEach((box) => watch.observe(box));

  // Narrows the contents to the artefacts that contain what is typed.
  const find = document.getElementById("find");
  find.hidden = false;
  find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    for (const item of document.querySelectorAll("nav li"))
      item.hidden = !item.textContent.toLowerCase().includes(wanted);
  });

  // Shows the claims of one verdict, or all.
  const buttons = [...document.querySelectorAll(".filter button")];
  buttons.forEach((button) => button.addEventListener("click", () => {
    const chosen = button.getAttribute("aria-pressed") === "false" && button.dataset.verdict;
    buttons.forEach((other) => other.setAttribute("aria-pressed", other === button && Boolean(chosen)));
    for (const one of document.querySelectorAll("#claims :is(tr, details)[data-verdict]"))
      one.hidden = Boolean(chosen) && one.dataset.verdict !== chosen;
    for (const part of document.querySelectorAll("#claims :is(.judged, .margins, details.claims)"))
      part.hidden = !part.querySelector("[data-verdict]:not([hidden])");
  }));

  // A cell that a link points to lies in a folded part: unfold it.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded) folded.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
}
