// The frame: what is shown, kept in the address; navigation; hints.
const state = {};
const DEFAULTS = { view: null, model: null, mixture: null, method: null, fraction: null, a: null, b: null,
  heads: "", measure: null, predictor: null, table: null, before: null, task: null };

function readAddress() {
  const found = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(DEFAULTS)) state[name] = found.get(name) ?? value;
}
function address() {
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name] && value !== null && value !== "");
  return `#${new URLSearchParams(kept)}`;
}
/** Change what is shown; a drag replaces the address instead of leaving a trail. */
function show(change, replace = false) {
  const focused = document.activeElement && document.activeElement.id;
  Object.assign(state, change);
  render();
  if (replace) history.replaceState(null, "", address());
  else history.pushState(null, "", address());
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
}

const main = h("main", { id: "main", tabindex: -1 });
const bar = h("nav", { "aria-label": "Views" });
const said = h("p", { class: "hidden", role: "status" });

function render() {
  const views = Object.entries(DATA.pages).map(([id, name]) => ({ id, name, ...PAGES[id] })).filter((page) => page.exists());
  const current = views.find((page) => page.id === state.view) || views[0];
  state.view = current.id;
  bar.replaceChildren(...views.map((page) => h("a", { href: `#view=${page.id}`, id: `to-${page.id}`,
    "aria-current": page === current ? "page" : null,
    onclick: (event) => { event.preventDefault(); show({ view: page.id }); } }, page.name)));
  main.replaceChildren(h("h2", {}, current.name), ...[current.draw()].flat(Infinity).filter(Boolean));
  document.title = `${DATA.study}: ${current.name}`;
}

function choice(id, label, values, value, act) {
  return h("label", { class: "choice" }, h("span", {}, label),
    h("select", { id, onchange: (event) => act(event.target.value) }, values.map((each) => {
      const [key, words] = Array.isArray(each) ? each : [each, each];
      return h("option", { value: key, selected: String(key) === String(value) }, cut(String(words), 48));
    })));
}

document.body.append(
  h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "To the content"),
  h("header", { class: "top" }, h("h1", {}, h("span", { dir: "auto" }, cut(DATA.study, 60))), bar),
  DATA.unfinished ? h("p", { class: "unfinished", role: "note" }, DATA.unfinished) : "",
  main, h("footer", {}, DATA.left_out), said);
addEventListener("popstate", () => { readAddress(); render(); });
PHONE.addEventListener("change", render);
addEventListener("hashchange", () => { readAddress(); render(); });
readAddress();
render();
