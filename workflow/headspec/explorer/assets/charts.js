// Pictures: intervals in rows, lines, points, and maps of heads. Coordinates are those of the viewBox.
/** Round values from `low` to `high`, about `count` of them. */
function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((of) => of * size).find((of) => of >= 0.75 * rough);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
function extent(values, also = []) {
  const all = [...values.filter((value) => !missing(value)), ...also];
  const low = Math.min(...all), high = Math.max(...all), pad = (high - low || 1) * 0.05;
  return [low - pad, high + pad];
}
const picture = (width, height, label, ...children) =>
  s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label, class: "chart",
    width, height }, children);
const text = (x, y, words, more = {}) => s("text", { x, y, ...more }, words);
/** A mark that the keyboard reaches and that says what it is. */
function mark(tag, attributes, words, act) {
  const keys = act && { role: "button", tabindex: 0, onclick: act,
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } } };
  return s(tag, { role: "img", "aria-label": words, ...keys, ...attributes }, s("title", {}, words));
}
const SHAPES = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (x, y, r) => `M${x} ${y - r * 1.25}L${x + r * 1.2} ${y + r}H${x - r * 1.2}z`,
  (x, y, r) => `M${x} ${y - r * 1.35}L${x + r * 1.35} ${y}L${x} ${y + r * 1.35}L${x - r * 1.35} ${y}z`,
];
const shape = (index) => SHAPES[index % SHAPES.length];
const colour = (index) => `c${index % 6}`;

function axis(x, values, top, bottom, label, words = (value) => number(100 * value, 0)) {
  const digits = values.map(words);
  return s("g", { class: "axis", "aria-hidden": "true" },
    values.map((value, i) => [s("line", { x1: x(value), x2: x(value), y1: top, y2: bottom,
      class: Math.abs(value) < 1e-12 ? "zero" : "grid" }),
      text(x(value), bottom + 16, digits[i], { "text-anchor": "middle" })]),
    text((x(values[0]) + x(values.at(-1))) / 2, bottom + 34, label, { "text-anchor": "middle", class: "label" }));
}

/** Points with intervals: rows of {name, detail, group, index, value, low, high, hollow, act, printed}. */
function forest(lines, label, { words } = {}) {
  const narrow = innerWidth < 640;
  const left = narrow ? 128 : 230, right = narrow ? 66 : 130, width = narrow ? 430 : 760, row = 24;
  let y = 14, group = null;
  const height = 64 + row * (lines.length + unique(lines.map((line) => line.group)).length);
  const [low, high] = extent(lines.flatMap((line) => [line.low, line.high, line.value]), [0]);
  const x = scale(low, high, left, width - right);
  const marks = lines.map((line) => {
    const parts = [];
    if (line.group !== group) {
      group = line.group;
      parts.push(text(0, y + 4, cut(group, narrow ? 48 : 90), { class: "group" }));
      y += row;
    }
    const words = `${isolated(line.group)}, ${isolated(line.name)}: ${line.detail}`;
    parts.push(text(10, y + 4, cut(line.name, narrow ? 17 : 32)));
    if (!missing(line.value)) {
      parts.push(s("line", { x1: x(line.low ?? line.value), x2: x(line.high ?? line.value), y1: y, y2: y,
        class: `range ${colour(line.index)}` }));
      parts.push(mark("path", { d: shape(line.index)(x(line.value), y, 5),
        class: `point ${colour(line.index)}${line.hollow ? " hollow" : ""}`, "data-value": line.value }, words, line.act));
    }
    parts.push(text(width, y + 4, line.printed, { "text-anchor": "end", class: "printed" }));
    y += row;
    return parts;
  });
  return picture(width, height, label,
    axis(x, ticks(low, high, narrow ? 3 : 5), 2, height - 44, label, words), marks);
}

/** Lines with bands: series of {name, index, dash, points: [[x, y, low, high]]}; `at` is marked. */
function curves(series, at, labels) {
  const width = 520, height = 300, left = 52, top = 10, bottom = 250, right = 396;
  const all = series.flatMap((one) => one.points);
  const [low, high] = extent(all.flatMap((point) => point.slice(1)));
  const x = scale(0, Math.max(...all.map((point) => point[0]), at), left, right);
  const y = scale(low, high, bottom, top);
  const names = series.map((one) => [one, y(one.points.at(-1)[1])]).sort((a, b) => a[1] - b[1]);
  names.forEach((name, i) => { if (i && name[1] < names[i - 1][1] + 15) name[1] = names[i - 1][1] + 15; });
  return picture(width, height, labels.title,
    axis(x, ticks(0, Math.max(...all.map((point) => point[0]), at), 4), top, bottom, labels.x),
    s("g", { class: "axis", "aria-hidden": "true" }, ticks(low, high, 5).map((value) => [
      s("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }),
      text(left - 7, y(value) + 4, number(100 * value, high - low < 0.03 ? 1 : 0), { "text-anchor": "end" })])),
    s("line", { x1: x(at), x2: x(at), y1: top, y2: bottom, class: "cursor" }),
    series.map((one) => {
      const to = (i) => one.points.map((point) => `${x(point[0])} ${y(point[i])}`);
      return s("g", {},
        one.points[0].length > 2 && one.points.length > 1 ? s("path", { class: `band ${colour(one.index)}`,
          d: `M${to(2).join("L")}L${to(3).reverse().join("L")}z` }) : null,
        one.points[0].length > 2 && one.points.length === 1 ? s("line", { class: `range ${colour(one.index)}`,
          x1: x(one.points[0][0]), x2: x(one.points[0][0]), y1: y(one.points[0][2]), y2: y(one.points[0][3]) }) : null,
        s("path", { class: `line ${colour(one.index)}`, d: `M${to(1).join("L")}`, "stroke-dasharray": one.dash }),
        one.points.map((point) => mark("path", { d: shape(one.index)(x(point[0]), y(point[1]), 4),
          class: `point ${colour(one.index)}${one.dash ? " hollow" : ""}` },
          `${isolated(one.name)}, ${percent(point[0], 0)} of heads: ${percent(point[1])}`)));
    }),
    names.map(([one, height]) => text(right + 12, height + 4, cut(one.name, 17), { class: `name ${colour(one.index)}` })));
}

/** Points of {x, y, low, high, index, words, act}. */
function scatter(points, labels) {
  const width = 620, height = 400, left = 56, bottom = 348;
  const [x0, x1] = extent(points.map((point) => point.x));
  const [y0, y1] = extent(points.flatMap((point) => [point.y, point.low, point.high]), [0]);
  const x = scale(x0, x1, left, width - 16), y = scale(y0, y1, bottom, 18);
  return picture(width, height, labels.title,
    axis(x, ticks(x0, x1), 12, bottom, labels.x, (value) => number(value, 2)),
    s("g", { class: "axis", "aria-hidden": "true" }, ticks(y0, y1).map((value) => [
      s("line", { x1: left, x2: width - 16, y1: y(value), y2: y(value), class: Math.abs(value) < 1e-12 ? "zero" : "grid" }),
      text(left - 7, y(value) + 4, number(100 * value, 0), { "text-anchor": "end" })])),
    text(left, 8, "D, per cent", { class: "label" }),
    points.map((point) => [
      missing(point.low) ? null : s("line", { x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high), class: `range ${colour(point.index)}` }),
      mark("path", { d: shape(point.index)(x(point.x), y(point.y), 6), class: `point ${colour(point.index)}` }, point.words, point.act)]));
}

/** Layer x head: cells of a shade or, with `signed`, of two colours and a sign, so that grey says the same. */
function headMap(values, size, { title, signed, closed, words, act, hover }) {
  const cell = Math.max(15, Math.min(26, 340 / size.heads)), left = 30, top = 6;
  const width = left + cell * size.heads + 4, height = top + cell * size.layers + 36;
  const largest = Math.max(...values.map((value) => Math.abs(value || 0))) || 1;
  const grid = s("g", { role: "group", "aria-label": `${title}: a button for each head; arrows move, Enter selects` });
  const cells = values.map((value, i) => {
    const x = left + (i % size.heads) * cell, y = top + Math.floor(i / size.heads) * cell;
    const share = missing(value) ? 0 : Math.abs(value) / largest;
    const node = s("rect", { x: x + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1, rx: 2,
      class: `cell ${signed && value < 0 ? "below" : "above"}`, "fill-opacity": (0.04 + 0.96 * share).toFixed(3),
      role: "button", tabindex: -1, "data-head": i, "aria-label": words(i) });
    grid.append(node);
    if (signed && share > 0.2) grid.append(text(x + cell / 2, y + cell / 2 + 4, value < 0 ? "−" : "+",
      { class: "sign", "text-anchor": "middle", "aria-hidden": "true" }));
    if (closed && closed[i]) grid.append(s("path", { class: "closed", "aria-hidden": "true",
      "stroke-opacity": closed[i], d: `M${x + 4} ${y + 4}L${x + cell - 4} ${y + cell - 4}M${x + cell - 4} ${y + 4}L${x + 4} ${y + cell - 4}` }));
    return node;
  });
  const focus = (i) => { cells.forEach((each) => each.setAttribute("tabindex", -1)); cells[i].setAttribute("tabindex", 0); };
  focus(0);
  const of = (event) => event.target.dataset && event.target.dataset.head !== undefined ? Number(event.target.dataset.head) : null;
  const on = (run) => (event) => { const i = of(event); if (i !== null) run(i, event); };
  grid.addEventListener("click", on((i) => { focus(i); act(i); }));
  grid.addEventListener("mouseover", on((i) => hover(i)));
  grid.addEventListener("focusin", on((i) => hover(i)));
  grid.addEventListener("keydown", on((i, event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: size.heads, ArrowUp: -size.heads }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(i); }
    else if (move && cells[i + move]) { event.preventDefault(); focus(i + move); cells[i + move].focus(); }
  }));
  const every = size.heads > 16 ? 4 : 2;
  return picture(width, height, title, grid, s("g", { class: "axis", "aria-hidden": "true" },
    [...Array(size.layers).keys()].filter((i) => size.layers < 8 || i % 2 === 0).map((i) => text(left - 6, top + cell * (i + 0.5) + 4, i, { "text-anchor": "end" })),
    [...Array(size.heads).keys()].filter((i) => i % every === 0).map((i) => text(left + cell * (i + 0.5), top + cell * size.layers + 15, i, { "text-anchor": "middle" })),
    text(left + cell * size.heads / 2, top + cell * size.layers + 31, "head, by layer", { "text-anchor": "middle", class: "label" })));
}
