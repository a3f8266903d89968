// Data, elements, numbers, and panels with their exports. Names reach the page only as text.
const DATA = JSON.parse(document.getElementById("data").textContent);
const VIEWS = DATA.views;
const SVG = "http://www.w3.org/2000/svg";
const PHONE = matchMedia("(max-width: 639px)");

/** The rows of a table that is stored by columns, those of text as values and the place of each. */
function rows(columns) {
  const whole = Object.entries(columns || {}).map(([name, column]) => [name, Array.isArray(column) ? column
    : column.places.map((place) => (place === null ? null : column.values[place]))]);
  return whole.length ? whole[0][1].map((_, i) => Object.fromEntries(whole.map(([name, of]) => [name, of[i]]))) : [];
}

function fill(node, attributes, children = []) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  if (children.length) node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const unique = (values) => [...new Set(values)];
const missing = (value) => value === null || value === undefined;
/** A number with a true minus sign; missing ones are a dash. */
function number(value, digits = 3) {
  if (missing(value)) return "–";
  return (Number(value.toFixed(digits)) + 0).toFixed(digits).replace("-", "−");
}
/** Order by a number, missing ones last. */
const rising = (of) => (a, b) => {
  const [x, y] = [of(a), of(b)];
  return missing(x) || missing(y) ? missing(x) - missing(y) : x - y;
};
const falling = (of) => rising((row) => (missing(of(row)) ? null : -of(row)));
/** Significant digits instead. */
const short = (value) => (missing(value) ? "–" : String(Number(value.toPrecision(3))).replace("-", "−"));
/** A difference of fractions in points, with its sign. */
const points = (value, digits = 1) => (missing(value) ? "–" : `${Number((100 * value).toFixed(digits)) > 0 ? "+" : ""}${number(100 * value, digits)}`);
const hundredths = (value, digits = 1) => number(missing(value) ? value : 100 * value, digits);
const percent = (value, digits = 1) => (missing(value) ? "–" : `${hundredths(value, digits)} %`);
const interval = (low, high, of = number) => (missing(low) ? "" : `[${of(low)}, ${of(high)}]`);
/** A name that fits its place in a picture; the whole name is in the tables. */
const cut = (name, length = 24) => ([...name].length > length ? `${[...name].slice(0, length - 1).join("")}…` : name);
/** A name from the code in words: without underscores and, at the start, with a capital. */
const worded = (name) => name.replaceAll("_", " ");
const capital = (words) => words[0].toUpperCase() + words.slice(1);
const isolated = (name) => `\u2068${name}\u2069`;  // so that marks of right-to-left text end with it

function save(name, kind, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** CSV as in RFC 4180, with numbers as they are stored; text that a spreadsheet would run gets an apostrophe. */
function csv(names, lines) {
  const cell = (value) => {
    if (missing(value)) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...lines].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "opacity", "font-size",
  "font-weight", "font-family", "text-anchor", "dominant-baseline"];
/** A picture on its own: looks from the style sheet become attributes of each mark. */
function standalone(picture, title) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of LOOKS) node.setAttribute(name, style.getPropertyValue(name));
    node.removeAttribute("tabindex");
    node.removeAttribute("class");
  });
  const box = picture.viewBox.baseVal;
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.setAttribute("xmlns", SVG);
  const ground = getComputedStyle(document.body).backgroundColor;
  copy.prepend(s("title", {}, title), s("rect", { width: box.width, height: box.height, fill: ground }));
  return new XMLSerializer().serializeToString(copy);
}

/** The table behind a picture, made when it is opened, which it is from the start where there is no picture. */
function behind(names, lines, caption, alone) {
  const box = h("details", { class: "behind", open: alone, ontoggle: () => {
    if (!box.open || box.querySelector("table")) return;
    const shown = lines.slice(0, 500);
    box.append(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${caption}` },
      table(names, shown.map((line) => line.map((value) =>
        typeof value === "number" ? short(value) : missing(value) ? "–" : String(value))), caption)));
    if (lines.length > shown.length)
      box.append(h("p", {}, `The first ${shown.length} of ${lines.length} rows; the CSV has all of them.`));
  } }, h("summary", {}, `Table, ${lines.length} rows`));
  return box;
}

function table(names, lines, caption) {
  return h("table", {}, h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, worded(name))))),
    h("tbody", {}, lines.map((line) => h("tr", {}, line.map((value) => h("td", { dir: "auto" }, value))))));
}

/** A place for a picture, which is drawn after what is above it has been shown. */
function drawnLater(draw) {
  const box = h("div", { class: "picture" });
  setTimeout(() => { if (box.isConnected) box.append(draw()); });
  return box;
}
/** A picture, or the function that draws it later, with its title, a sentence on how to read it, exports, and
 *  the table behind it. */
function panel({ id, title, note, picture, names, lines, controls, opened }) {
  const box = typeof picture === "function" ? drawnLater(picture) : picture && h("div", { class: "picture" }, picture);
  const file = `${DATA.study}-${id}`.replace(/[^\w.-]+/g, "_").slice(0, 80);
  return h("section", { class: "panel", id: `panel-${id}`, "aria-labelledby": `title-${id}` },
    h("header", {}, h("h3", { id: `title-${id}` }, title),
      h("div", { class: "exports" },
        box && h("button", { type: "button", "aria-label": `Save as SVG: ${title}`,
          onclick: () => save(`${file}.svg`, "image/svg+xml", standalone(box.firstChild, title)) }, "SVG"),
        h("button", { type: "button", "aria-label": `Save as CSV: ${title}`,
          onclick: () => save(`${file}.csv`, "text/csv", csv(names, lines)) }, "CSV"))),
    note && h("p", { class: "note" }, note), controls, box,
    behind(names, lines, title, opened || !box));
}
