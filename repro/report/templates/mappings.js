{
  const data = read(), [mapping, slider, value, curve, regions] =
    ["mapping", "slider", "value", "curve", "regions"].map((id) => document.getElementById(id));
  for (const { title } of data.mappings) add(mapping, "option", title);
  const draw = () => {
    const chosen = data.mappings[mapping.selectedIndex], n = slider.value;
    value.textContent = `${chosen.symbol} = ${chosen.values[n]}`;
    slider.setAttribute("aria-valuetext", value.textContent);
    curve.replaceChildren();
    const place = drawAxes(curve, [[data.t[0], 0], [data.t.at(-1), 1]], "t");
    for (const [name, values] of Object.entries({ softmax: data.softmax, sparsemax: data.sparsemax, chosen: chosen.curves[n] }))
      add(curve, "polyline", "", { class: name, points: values.map((y, at) => place(data.t[at], y)).join(" ") });
    regions.replaceChildren();
    const cells = add(regions, "g"), size = 200 / chosen.regions[n].length;
    chosen.regions[n].forEach((row, y) => {
      let x = 0;
      for (const [, kind, count] of row.matchAll(/([a-f])(\d+)/g)) {
        add(cells, "rect", "", { class: kind, x: x * size, y: y * size, width: count * size, height: size });
        x += Number(count);
      }
    });
    const spot = ([x, y]) => [100 + 100 * x, 100 - 100 * y];
    add(regions, "polygon", "", { points: data.corners.map(spot).join(" ") });
    data.corners.forEach((corner, word) => {
      const [x, y] = spot(corner.map((part) => part * 1.3));
      add(regions, "text", `p${"₁₂₃"[word]} = 1`, { x, y: y + 3 });
    });
  };
  const start = () => {
    slider.max = data.mappings[mapping.selectedIndex].values.length - 1;
    slider.value = Math.ceil(slider.max / 6);
    draw();
  };
  slider.addEventListener("input", draw);
  mapping.addEventListener("input", start);
  start();
}
