{
  const data = read();
  const mapping = document.getElementById("mapping"), slider = document.getElementById("slider");
  const curve = document.getElementById("curve"), regions = document.getElementById("regions");
  const value = document.getElementById("value");
  for (const one of data.mappings) add(mapping, "option", one.title, { value: one.name });
  const draw = () => {
    const one = data.mappings.find(({ name }) => name === mapping.value);
    slider.max = one.values.length - 1;
    const setting = one.values[slider.value], chosen = one.steps[slider.value];
    value.textContent = `${one.symbol} = ${setting}`;
    slider.setAttribute("aria-valuetext", value.textContent);
    curve.replaceChildren();
    const place = drawAxes(curve, [[data.t[0], 0], [data.t.at(-1), 1]], "t");
    for (const [name, values] of [...Object.entries(data.references), ["chosen", chosen.curve]])
      add(curve, "polyline", "", { class: name, points: values.map((y, n) => place(data.t[n], y)).join(" ") });
    regions.replaceChildren();
    const size = 200 / data.size;
    chosen.regions.forEach((row, y) => {
      let x = 0;
      for (const [, kind, count] of row.matchAll(/([a-f])(\d+)/g)) {
        add(regions, "rect", "", { class: kind, x: x * size, y: y * size, width: count * size + 0.2, height: size + 0.2 });
        x += Number(count);
      }
    });
    const spot = ([x, y]) => [100 + x * 100 / data.reach, 100 - y * 100 / data.reach];
    add(regions, "polygon", "", { points: data.corners.map(spot).join(" ") });
    data.corners.forEach((corner, n) => {
      const [x, y] = spot(corner.map((part) => part * 1.3));
      add(regions, "text", "p" + "₁₂₃"[n] + " = 1", { x, y: y + 3 });
    });
  };
  const start = () => {
    const one = data.mappings.find(({ name }) => name === mapping.value);
    slider.value = one.values.indexOf(one.usual);
    draw();
  };
  slider.addEventListener("input", draw);
  mapping.addEventListener("change", () => { slider.max = 1000; start(); });
  slider.max = 1000;
  start();
}
