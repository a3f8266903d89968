// Pictures: intervals in rows, lines, points, and maps of heads. Coordinates are those of the viewBox.
/** Round values from `low` to `high`, about `count` of them. */
function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((of) => of * size).find((of) => of >= 0.7 * rough);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
function extent(values, also = []) {
  const all = [...values, ...also].filter((value) => !missing(value));
  if (!all.length) all.push(0);
  const low = Math.min(...all), high = Math.max(...all), pad = (high - low || 1) * 0.05;
  return [low - pad, high + pad];
}
const picture = (width, height, label, ...children) =>
  s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label, class: "chart",
    width, height }, children);
const text = (x, y, words, more = {}) => s("text", { x, y, ...more }, words);
/** Numbers with their names, in rows between `left` and `right` from `y` down, and where the last row is. */
function key(entries, left, right, y) {
  let x = left;
  const parts = entries.map(({ mark, name }) => {
    const room = 30 + 7.2 * [...cut(name, 44)].length;
    if (x > left && x + room > right) { x = left; y += 20; }
    x += room;
    return text(x - room, y + 4, `${mark}  ${cut(name, 44)}`);
  });
  return [parts, y];
}
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
const TASKS = unique(rows(VIEWS.combined).map((row) => row.task)).filter((task) => task !== "mean");
/** The colour and mark that a task has in all pictures; grey is for means and what is random. */
function taskLook(task) {
  const place = TASKS.indexOf(task);
  return place < 0 ? 5 : place + Math.floor(place / 5);
}

function axis(x, values, top, bottom, label, words = (value) => number(100 * value, 0)) {
  const digits = values.map(words);
  return s("g", { class: "axis", "aria-hidden": "true" },
    values.map((value, i) => [s("line", { x1: x(value), x2: x(value), y1: top, y2: bottom,
      class: Math.abs(value) < 1e-12 ? "zero" : "grid" }),
      text(x(value), bottom + 16, digits[i], { "text-anchor": "middle" })]),
    text((x(values[0]) + x(values.at(-1))) / 2, bottom + 34, label, { "text-anchor": "middle", class: "label" }));
}

/** Points with intervals, under the name of each group: rows of {name, detail, group, index, value, low, high, hollow, act, printed}.
 *  Options: words for ticks; slim beside others; without 0 on the axis; a value to compare with; room for what is printed. */
function forest(lines, label, { words, slim, free, compared, room } = {}) {
  const phone = PHONE.matches, narrow = phone || slim;
  const left = phone ? 158 : slim ? 168 : 230, right = room ?? (narrow ? 66 : 130), width = phone ? 430 : slim ? 500 : 760, row = 24;
  const groups = unique(lines.map((line) => line.group)), ordered = groups.flatMap((name) => lines.filter((line) => line.group === name));
  let y = 14, group = null;
  const height = 64 + row * (lines.length + groups.length);
  const ends = lines.flatMap((line) => [line.low, line.high, line.value]);
  const [low, high] = extent(ends, [...(free ? [] : [0]), ...(missing(compared) ? [] : [compared])]);
  const x = scale(low, high, left, width - right);
  const marks = ordered.map((line) => {
    const parts = [];
    if (line.group !== group) {
      group = line.group;
      parts.push(text(0, y + 4, cut(group, narrow ? 48 : 90), { class: "group" }));
      y += row;
    }
    const words = `${isolated(line.group)}, ${isolated(line.name)}: ${line.detail}`;
    parts.push(text(10, y + 4, cut(line.name, phone ? 21 : slim ? 24 : 32)));
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
  return picture(width, height, label, axis(x, ticks(low, high, narrow ? 3 : 5), 2, height - 44, label, words),
    missing(compared) ? null : s("line", { x1: x(compared), x2: x(compared), y1: 2, y2: height - 44, class: "cursor" }), marks);
}

/** Heights for names, at least 15 apart and above the bottom, as near to `wanted` as that allows. */
function spread(wanted, bottom) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]), found = [...wanted];
  order.forEach((i, k) => { if (k) found[i] = Math.max(found[i], found[order[k - 1]] + 15); });
  order.reverse().forEach((i, k) => { found[i] = Math.min(found[i], k ? found[order[k - 1]] - 15 : bottom); });
  return found;
}

/** Lines with bands: series of {name, index, dash, points: [[x, y, low, high]]}; `at` and `chance`, if given, are marked.
 *  The band of a single point is a box, left of the mark of `at`, which would hide it. */
function curves(found, at, labels, chance) {
  const series = found.map((one) => ({ ...one, points: one.points.filter((point) => !missing(point[1])) })).filter((one) => one.points.length);
  const all = series.flatMap((one) => one.points), most = Math.max(0, ...all.map((point) => point[0]), at ?? 0);
  const wide = Math.max(0, ...series.map((one) => [...cut(one.name)].length));
  const left = 52, top = 10, right = PHONE.matches ? 300 : 396, width = right + Math.max(124, 40 + 6.6 * wide);
  const bottom = Math.max(250, top + 15 * series.length), height = bottom + 50;
  const [low, high] = extent(all.flatMap((point) => point.slice(1)), missing(chance) ? [] : [chance]);
  const x = scale(0, most, left, right), y = scale(low, high, bottom, top);
  const heights = spread(series.map((one) => y(one.points.at(-1)[1])), bottom);
  return picture(width, height, labels.title,
    axis(x, ticks(0, most, 4), top, bottom, labels.x),
    s("g", { class: "axis", "aria-hidden": "true" }, ticks(low, high, 5).map((value) => [
      s("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }),
      text(left - 7, y(value) + 4, number(100 * value, high - low < 0.03 ? 1 : 0), { "text-anchor": "end" })])),
    missing(at) ? null : s("line", { x1: x(at), x2: x(at), y1: top, y2: bottom, class: "cursor" }),
    missing(chance) ? null : [s("line", { x1: left, x2: right, y1: y(chance), y2: y(chance), class: "cursor chance", "data-chance": chance }),
      text(right - 4, y(chance) - 4, "chance", { "text-anchor": "end", class: "label" })],
    series.map((one, i) => {
      const boxed = one.points.length === 1, across = (point) => x(point[0]) - (boxed ? 9 : 0);
      const to = (i) => one.points.map((point) => `${across(point)} ${y(point[i])}`);
      const banded = !missing(one.points[0][2]), open = one.dash ? " hollow" : "";
      return s("g", { class: "series" },
        banded && !boxed ? s("path", { class: `band ${colour(one.index)}`,
          d: `M${to(2).join("L")}L${to(3).reverse().join("L")}z` }) : null,
        banded && boxed ? s("rect", { class: `band box ${colour(one.index)}`, width: 12, x: across(one.points[0]) - 6,
          y: y(one.points[0][3]), height: y(one.points[0][2]) - y(one.points[0][3]) }) : null,
        s("path", { class: `line ${colour(one.index)}`, d: `M${to(1).join("L")}`, "stroke-dasharray": one.dash }),
        one.points.map((point) => mark("path", { d: shape(one.index)(across(point), y(point[1]), 4),
          class: `point ${colour(one.index)}${open}`, "data-value": point[1] },
          `${isolated(one.name)}, ${percent(point[0], 0)} of heads: ${percent(point[1])}`)),
        s("path", { d: shape(one.index)(right + 16, heights[i], 4), class: `point ${colour(one.index)}${open}`, "aria-hidden": "true" }),
        text(right + 26, heights[i] + 4, cut(one.name), { class: `name ${colour(one.index)}` }));
    }));
}

/** Points of {x, y, low, high, index, hollow, chance, words, act}, each with the number `mark` of its `name` below. */
function scatter(points, labels) {
  const phone = PHONE.matches, width = phone ? 400 : 620, left = phone ? 42 : 56, top = 26, bottom = 348;
  const [legend, end] = key(points, left, width, bottom + 58), height = end + 12;
  const [x0, x1] = extent(points.map((point) => point.x));
  const [y0, y1] = extent(points.flatMap((point) => [point.y, point.low, point.high]), [0]);
  const x = scale(x0, x1, left, width - 16), y = scale(y0, y1, bottom, top + 6);
  return picture(width, height, labels.title,
    axis(x, ticks(x0, x1, phone ? 3 : 5), top, bottom, labels.x, (value) => number(value, 2)),
    s("g", { class: "axis", "aria-hidden": "true" }, ticks(y0, y1).map((value) => [
      s("line", { x1: left, x2: width - 16, y1: y(value), y2: y(value), class: Math.abs(value) < 1e-12 ? "zero" : "grid" }),
      text(left - 7, y(value) + 4, number(100 * value, 0), { "text-anchor": "end" })])),
    text(left, 15, "D, per cent", { class: "label" }), legend,
    points.map((point) => [
      missing(point.low) ? null : s("line", { x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high), class: `range ${colour(point.index)}` }),
      mark("path", { d: shape(point.index)(x(point.x), y(point.y), 6), class: `point ${colour(point.index)}${point.hollow ? " hollow" : ""}`, "data-value": point.y }, point.words, point.act),
      text(x(point.x) + 9, y(point.y) - 5, `${point.mark} ${point.chance}`.trim(), { "aria-hidden": "true" })]));
}

const absent = (size, i) => Boolean(size.absent?.includes(i));
/** A key of shades, from their least to their largest value. */
function shades(x, y, most, signed) {
  const steps = signed ? 11 : 7, size = 13, from = signed ? -1 : 0;
  return [text(x + 50, y + 11, short(from * most), { "text-anchor": "end" }), [...Array(steps).keys()].map((i) => {
    const share = from + (1 - from) * i / (steps - 1);
    return s("rect", { x: x + 56 + size * i, y, width: size, height: size, class: `cell ${share < 0 ? "below" : "above"}`, "fill-opacity": opacity(Math.abs(share)) });
  }), text(x + 62 + size * steps, y + 11, short(most))];
}
/** Of a cell, by its share of the darkest; on darker ones marks have the colour of the ground. */
const opacity = (share) => (0.04 + 0.96 * share).toFixed(3), DARK = 0.72;
/** Layer x head: cells of a shade or, with `signed`, of two colours and a sign, so that grey says the same.
 *  `largest` is the value of the darkest shade; `sign` says which cells have a sign; `closed` crosses cells;
 *  `glyphs` draws a mark {form, index, r} in cells instead, named in `legend`. A size with `kinds` of attention,
 *  [name, first row] each, has a map of each, one below the other; places without a head stay empty. */
function headMap(values, size, { title, signed, sign, largest, closed, glyphs, legend = [], words, act, hover }) {
  const cell = Math.max(15, Math.min(26, 340 / size.heads)), left = 44, top = 6;
  const kinds = size.kinds ?? [[null, 0]], apart = size.kinds ? 24 : 0;
  // as in figures, the first layer is the lowest, of each kind of attention
  const last = (k) => (kinds[k + 1]?.[1] ?? size.layers) - 1;
  const rowAt = (row) => {
    const k = kinds.findLastIndex(([, first]) => first <= row);
    return top + cell * (kinds[k][1] + last(k) - row) + apart * (k + 1);
  };
  const below = top + cell * size.layers + apart * kinds.length;
  const width = Math.max(left + cell * size.heads + 4, legend.length ? 210 : 0, size.kinds ? 200 : 0, glyphs ? 0 : 272);
  const step = 84, by = Math.floor((width - 8) / step), height = below + 36 + 19 * Math.ceil(legend.length / by) + (glyphs ? 0 : 26);
  const most = largest || Math.max(...values.map((value) => Math.abs(value || 0))) || 1;
  const signs = sign || ((i) => Math.abs(values[i]) > 0.1 * most);
  const grid = s("g", { role: "group", "aria-label": `${title}: a button for each head; arrows move, Enter selects` });
  const marks = {};  // by their look: one path for all of a look, as pictures of many heads take long to make
  const each = s("rect", { width: cell - 1, height: cell - 1, rx: 2, role: "button", tabindex: -1, "aria-pressed": "false" });
  const cells = values.map((value, i) => {
    if (absent(size, i)) return null;
    const x = left + (i % size.heads) * cell, y = rowAt(Math.floor(i / size.heads));
    const share = missing(value) || glyphs ? 0 : Math.min(1, Math.abs(value) / most);
    const node = fill(each.cloneNode(), { x: x + 0.5, y: y + 0.5, class: `cell ${signed && value < 0 ? "below" : "above"}`,
      "fill-opacity": opacity(share), "data-head": i, "aria-label": words(i) });
    grid.append(node);
    const put = (look, path, shown = 1) => (marks[`${look}${share > DARK ? " on-dark" : ""}|${shown}`] ??= []).push(path);
    if (signed && value && signs(i)) {
      const dash = `M${x + cell / 2 - 4} ${y + cell / 2}h8`;
      put(`sign ${value < 0 ? "minus" : "plus"}`, value < 0 ? dash : `${dash}m-4 -4v8`);
    }
    if (closed && closed[i])
      put("closed", `M${x + 4} ${y + 4}L${x + cell - 4} ${y + cell - 4}M${x + cell - 4} ${y + 4}L${x + 4} ${y + cell - 4}`, closed[i]);
    const glyph = glyphs && glyphs(i);
    if (glyph) grid.append(s("path", { class: `glyph ${colour(glyph.index)}`, "aria-hidden": "true",
      d: shape(glyph.form)(x + cell / 2, y + cell / 2, glyph.r * cell) }));
    return node;
  });
  fill(grid, {}, Object.entries(marks).map(([look, paths]) => {
    const [name, shown] = look.split("|");
    return s("path", { class: name, "stroke-opacity": shown, d: paths.join("") });
  }));
  walked(grid, cells, { ArrowRight: 1, ArrowLeft: -1, ArrowDown: -size.heads, ArrowUp: size.heads }, hover, act);
  const every = size.heads > 16 ? 4 : 2;
  return picture(width, height, title, grid, s("g", { class: "axis", "aria-hidden": "true" },
    kinds.map(([kind, first], k) => {
      const layers = last(k) + 1 - first;
      return [kind && text(left, rowAt(last(k)) - 6, KINDS[kind]), [...Array(layers).keys()].filter((i) => layers < 8 || i % 2 === 0)
        .map((i) => text(left - 6, rowAt(first + i) + 0.5 * cell + 4, i, { "text-anchor": "end" }))];
    }),
    [...Array(size.heads).keys()].filter((i) => i % every === 0).map((i) => text(left + cell * (i + 0.5), below + 15, i, { "text-anchor": "middle" })),
    text(left + cell * size.heads / 2, below + 31, "head", { "text-anchor": "middle", class: "label" }),
    text(12, (top + below) / 2, "layer", { "text-anchor": "middle", class: "label", transform: `rotate(-90 12 ${(top + below) / 2})` }),
    glyphs ? null : shades(8, below + 44, most, signed),
    legend.map(({ form, index, name }, i) => {
      const x = 8 + step * (i % by), y = below + 47 + 19 * Math.floor(i / by);
      return [s("path", { class: `glyph ${colour(index)}`, d: shape(form)(x + 6, y, 5) }), text(x + 16, y + 4, name)];
    })));
}
/** Let arrows move between `cells` of a grid, null where there is none, by `moves`; Enter and a click `act`. */
function walked(grid, cells, moves, hover, act) {
  const focus = (i) => { cells.forEach((each) => each?.setAttribute("tabindex", -1)); cells[i].setAttribute("tabindex", 0); };
  const on = (name, run) => grid.addEventListener(name, (event) => { const i = cells.indexOf(event.target); if (i >= 0) run(i, event); });
  focus(cells.findIndex((each) => each));
  on("mouseover", hover);
  on("focusin", hover);
  on("click", (i) => { focus(i); act?.(i); });
  on("keydown", (i, event) => {
    if (act && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); act(i); }
    const move = moves[event.key];
    let to = i + move;
    while (cells[to] === null) to += move;
    if (move && cells[to]) { event.preventDefault(); focus(to); cells[to].focus(); }
  });
}
/** A handler for the head that an event is at. */
const ofHead = (run) => (event) => {
  const at = event.target.dataset;
  if (at && at.head !== undefined) run(Number(at.head), event);
};

/** All heads from the largest value on, with intervals; those that include 0 are hollow. */
function ordered({ value, low, high }, label, { act, hover, title }) {
  const width = 520, height = 236, left = 60, right = width - 8, top = 10, bottom = 196;
  const order = value.map((_, i) => i).filter((i) => !missing(value[i])).sort(falling((i) => value[i]));
  const [least, most] = extent([...low, ...high], [0]);
  const x = scale(-1, order.length, left, right), y = scale(least, most, bottom, top);
  const r = Math.max(1.6, Math.min(4, 0.4 * (x(1) - x(0))));
  const line = (i, k) => (missing(low[i]) ? "" : `M${x(k)} ${y(low[i])}V${y(high[i])}`);
  return picture(width, height, title,
    s("g", { class: "axis", "aria-hidden": "true" }, ticks(least, most, 4).map((at) => [
      s("line", { x1: left, x2: right, y1: y(at), y2: y(at), class: Math.abs(at) < 1e-12 ? "zero" : "grid" }),
      text(left - 7, y(at) + 4, short(at), { "text-anchor": "end" })]),
      text((left + right) / 2, bottom + 22, "heads, from the largest value on", { "text-anchor": "middle", class: "label" }),
      text(12, (top + bottom) / 2, label, { "text-anchor": "middle", class: "label", transform: `rotate(-90 12 ${(top + bottom) / 2})` })),
    s("path", { class: "range c0", d: order.map(line).join("") }),
    s("g", { "aria-hidden": "true", onclick: ofHead(act), onmouseover: ofHead(hover) }, order.map((i, k) => s("path", { "data-head": i,
      class: `point dot c0${low[i] > 0 || high[i] < 0 ? "" : " hollow"}`, d: shape(0)(x(k), y(value[i]), r) }))));
}

/** Every two of `names`: one value below the diagonal, another above it, each from -1 to 1, unless `found` gives
 *  a `share` for its shade and what is `printed`. With `hover`, arrows move between the cells. */
function pairs(names, found, title, hover) {
  const phone = PHONE.matches, cell = phone ? 33 : 46, length = phone ? 17 : 26;
  const longest = Math.max(...names.map((name) => cut(worded(name), length).length)), left = 22 + (phone ? 6 : 7) * longest, top = left;
  const printed = (value) => (phone ? number(value, 2).replace("0.", ".") : number(value, 2));
  const side = cell * names.length, spots = [], words = [];
  const cells = names.flatMap((row, i) => names.map((column, j) => {
    const x = left + j * cell, y = top + i * cell, at = i !== j && found(row, column, i > j);
    words.push(at?.words);
    if (!at) return null;
    const share = at.share ?? at.value, node = mark("rect", { x: x + 1, y: y + 1, width: cell - 2, height: cell - 2, rx: 3, "data-value": at.value,
      class: `cell ${share < 0 ? "below" : "above"}`, "fill-opacity": (0.04 + 0.51 * Math.min(1, Math.abs(share))).toFixed(3) }, at.words);
    spots.push(node, text(x + cell / 2, y + cell / 2 + 4, at.printed ?? printed(at.value), { "text-anchor": "middle", class: "number", "aria-hidden": "true" }));
    return node;
  }));
  const grid = s("g", hover && spots.length ? { role: "group", "aria-label": `${title}: arrows move` } : {}, spots);
  if (hover && spots.length) walked(grid, cells, { ArrowRight: 1, ArrowLeft: -1, ArrowDown: names.length, ArrowUp: -names.length }, (i) => hover(words[i]));
  return picture(left + side + 4, top + side + 4, title, grid, names.map((name, i) => [
    text(left - 8, top + (i + 0.5) * cell + 4, cut(worded(name), length), { "text-anchor": "end" }),
    text(0, 0, cut(worded(name), length), { transform: `translate(${left + (i + 0.5) * cell + 4} ${top - 8}) rotate(-90)` })]));
}
