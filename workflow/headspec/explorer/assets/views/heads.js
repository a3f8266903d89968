// Heads: maps for two tasks, how they differ and how training changed them; what is known of single heads.
PAGES.heads = { exists: () => VIEWS.heads.length, draw: headsView };

const chosen = () => new Set(state.heads.split(" ").filter(Boolean));
// kinds of attention of an encoder-decoder, by their names in tables
const KINDS = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention" };
/** Columns of the place of a head, and the place of the i-th: with the kind of attention if there are several. */
const placeNames = (map) => [...(map.kinds ? ["attention"] : []), "layer", "head"];
function place(map, i) {
  const row = Math.floor(i / map.heads), head = i % map.heads;
  const kind = (map.kinds || []).findLast(([, first]) => first <= row);
  return kind ? [kind[0], row - kind[1], head] : [row, head];
}
const names = (map) => (map.names ??= Array.from({ length: map.layers * map.heads }, (_, i) => place(map, i).join(".")));
const named = (map, i) => names(map)[i];
function headName(map, i) {
  const at = place(map, i), [layer, head] = at.slice(-2);
  return `${at.length > 2 ? `${KINDS[at[0]]}, ` : ""}layer ${layer}, head ${head}`;
}
const tasksOf = (map) => Object.keys(map.ranks);
/** What a measure says of a task: {value, and of some low and high}. */
const measured = (map, measure, task) => (map.measures[measure] || {})[task];
// measures that grow with a task's loss: of each task its own scale; those without a sign are compared as shares
const OWN_SCALE = ["importance", "ablation_size", "ablation", "mean_ablation"], AS_SHARES = OWN_SCALE.slice(0, 2);
// which tokens count for confidence
const TOKENS = { confidence_with_separator: "all tokens", confidence: "without end token", confidence_no_separator: "without separators" };
const ROLES = [{ name: "positional", form: 1, index: 0 }, { name: "syntactic", form: 2, index: 2 },
  { name: "rare word", form: 3, index: 1 }, { name: "no role", form: 0, index: 5 }];
const roleLook = (name) => ROLES.find((each) => each.name === name) ?? ROLES.at(-1);
// the training before each, where both are there
const BEFORE = { tuned: ["frozen"], lora: ["frozen"], iat: ["tuned", "lora"] };

function toggle(name) {
  const set = chosen();
  if (!set.delete(name)) set.add(name);
  choose([...set].join(" "));
}
function choose(heads) {
  state.heads = heads;
  history.replaceState(null, "", address());
  markHeads();
  said.textContent = `${chosen().size} heads selected`;
}
/** Mark the selected heads in every picture, and list them. */
function markHeads() {
  const map = VIEWS.heads.find(ofRun), set = chosen();
  if (!map) return;
  for (const node of main.querySelectorAll("[data-head]")) {
    const on = set.has(named(map, Number(node.dataset.head)));
    if (on === node.classList.contains("chosen")) continue;
    node.classList.toggle("chosen", on);
    if (node.hasAttribute("role")) node.setAttribute("aria-pressed", on);
  }
  const list = document.getElementById("chosen");
  if (list) list.replaceChildren(chosenList(map, set));
}
function chosenNote() {
  return state.heads ? h("p", { class: "note", id: "chosen-heads" }, `Selected heads (${state.heads.match(/[a-z]/) ? "attention." : ""}layer.head): ${state.heads}. `,
    h("button", { type: "button", onclick: () => show({ view: "heads" }) }, "Show them")) : null;
}

const BRIEF = ["ablation", "relevance", "confidence"];
function role(map, i) {
  const name = map.roles.role[i];
  if (!name) return "roles are of self-attention";
  return (map.roles.of[i] ? `${name} (${map.roles.of[i]})` : name === "none" ? "no role" : name);
}
/** What is known of a head, a line for each task; in brief without variants of measures. */
function facts(map, i, count, brief) {
  const others = Object.keys(map.measures).filter((measure) => measure !== "importance" && (!brief || BRIEF.includes(measure)));
  const lines = tasksOf(map).map((task) => {
    const ranks = map.ranks[task].map((each) => each[i] + 1), of = measured(map, "importance", task);
    return [task, short(of.value[i]), `${short(of.low[i])} to ${short(of.high[i])}`, `${Math.min(...ranks)} to ${Math.max(...ranks)} of ${map.layers * map.heads - (map.absent ?? []).length}`,
      ...(count ? [`${ranks.filter((rank) => rank <= count).length} of ${ranks.length} seeds`] : []),
      ...others.map((measure) => {
        const one = measured(map, measure, task);
        return one.low ? `${short(one.value[i])} ${interval(one.low[i], one.high[i], short)}` : short(one.value[i]);
      })];
  });
  return { names: ["task", "importance", "range of seeds", "rank by seed", ...(count ? ["pruned for it"] : []), ...others], lines };
}
function headFacts(map, i, brief) {
  const { names: columns, lines } = facts(map, i, prunedCount(), brief);
  const gates = Object.entries(map.gates || {}).map(([way, of]) => `${way} ${percent(of[i], 0)}`).join(", ");
  return h("div", {}, h("p", {}, h("strong", {}, capital(headName(map, i))),
    map.roles ? ` · ${role(map, i)}` : "", gates ? ` · kept by gates: ${gates}` : ""),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${headName(map, i)}` }, table(columns, lines, capital(headName(map, i)))));
}
function chosenList(map, set) {
  if (!set.size) return h("p", { class: "note" }, "No head is selected. Select cells to mark heads in all pictures and to compare them here.");
  const places = [...set].map((name) => names(map).indexOf(name)).filter((i) => i >= 0 && !absent(map, i));
  return h("div", {}, h("button", { type: "button", onclick: () => choose("") }, "Clear the selection"),
    places.slice(0, 40).map((i) => headFacts(map, i, false)),
    places.length > 40 ? h("p", {}, `The first 40 of ${places.length} heads.`) : null);
}
function prunedCount() {
  const now = fraction(), row = pruned.find((each) => ofRun(each) && each.order === "top" && Math.abs(each.fraction - now) < 1e-9);
  return row ? row.n_pruned : 0;
}
/** For each head the share of seeds that prune it for a task. */
function closedShare(map, task, count) {
  const ranks = map.ranks[task];
  return ranks[0].map((_, i) => ranks.filter((of) => of[i] < count).length / ranks.length);
}

/** As shares of the sum over heads, in absolute values. */
function shares(values) {
  const sum = values.reduce((total, value) => total + Math.abs(value), 0) || 1;
  return values.map((value) => value / sum);
}
const comparable = (values, measure) => (AS_SHARES.includes(measure) ? shares(values) : values);
/** One task minus another, or minus all others: as tested where the study has that, else of the maps. */
function difference(map, measure, a, b) {
  for (const [task, against, sign] of [[a, b, 1], [b, a, -1]]) {
    const found = (map.differences || []).find((each) => each.measure === measure && each.task === task && each.against === against);
    if (found) return { value: found.difference.map((value) => sign * value), p: found.p };
  }
  const [of, minus] = [a, b].map((task) => measured(map, measure, task));
  if (!of || !minus) return null;
  const second = comparable(minus.value, measure);
  return { value: comparable(of.value, measure).map((value, i) => value - second[i]) };
}

function headsView() {
  const controls = groupChoices(VIEWS.heads), map = VIEWS.heads.find(ofRun), tasks = tasksOf(map);
  const others = (map.differences || []).some((each) => each.against === "others") ? ["others"] : [];
  if (!tasks.includes(state.a)) state.a = tasks[0];
  if (![...tasks, ...others].includes(state.b) || state.b === state.a) state.b = tasks.find((task) => task !== state.a) ?? null;
  const measures = Object.keys(map.measures);
  const shown = measures.includes(state.table) ? state.table : "importance";
  const trained = VIEWS.heads.filter((each) => each.model === map.model && each.mixture === map.mixture && each !== map && each.measures[shown]);
  const before = trained.find((each) => (state.before ? [state.before] : BEFORE[map.method] ?? []).includes(each.method));
  const count = prunedCount(), title = capital(worded(shown));
  const hint = h("div", { class: "hint", id: "hint" }, h("p", { class: "note" }, "Point at a head, or move to it with the arrow keys, to read what is known of it."));
  const hover = (i) => hint.replaceChildren(headFacts(map, i, true)), act = (i) => toggle(named(map, i));
  // the first row at once; others, of which there can be many, after it is shown
  const draw = (id, heading, note, of, { more = {}, atOnce, ...extra } = {}) => {
    const make = () => headMap(of, map,
      { title: heading, words: (i) => `${headName(map, i)}: ${short(of[i])}`, act, hover, ...extra });
    return panel({ id, title: heading, note, picture: atOnce ? make() : make,
      names: [...placeNames(map), id === "roles" ? "importance" : shown, ...Object.keys(more)],
      lines: of.map((value, i) => [...place(map, i), value, ...Object.values(more).map((each) => each[i])]).filter((_, i) => !absent(map, i)) });
  };
  const ends = (of) => (of.low ? { low: of.low, high: of.high } : {});

  const pair = [state.a, state.b].filter((task) => tasks.includes(task));
  const same = OWN_SCALE.includes(shown) ? null : Math.max(...pair.flatMap((task) => measured(map, shown, task).value.map(Math.abs)));
  const shade = `Mean over seeds; ${same ? "the maps have one scale." : "each map is shaded to its largest."}` +
    (count ? ` Crosses: the ${count} heads pruned for the task, paler where only some seeds prune them.` : "");
  const rowA = pair.map((task, k) => {
    const of = measured(map, shown, task);
    return draw(`map-${"ab"[k]}`, `${title} for ${isolated(task)}`, shade, of.value,
      { atOnce: true, closed: closedShare(map, task, count), signed: of.value.some((value) => value < 0), sign: (i) => of.value[i] < 0, largest: same, more: ends(of) });
  });
  const differs = state.b && difference(map, shown, state.a, state.b);
  const unit = AS_SHARES.includes(shown) ? "Shares of the sum over heads" : "Means over seeds";
  if (differs) rowA.push(draw("map-difference", `${isolated(state.a)} minus ${isolated(state.b)}`,
    `${unit}: + more for the first task, − less.${differs.p ? " Signs: p < 0.05, corrected over heads." : ""}`, differs.value,
    { atOnce: true, signed: true, sign: differs.p && ((i) => differs.p[i] < 0.05), more: differs.p ? { p: differs.p } : {} }));

  const rowB = [];
  if (before) rowB.push(...pair.map((task, k) => {
    const [now, then] = [map, before].map((each) => comparable(measured(each, shown, task).value, shown));
    return draw(`change-${"ab"[k]}`, `${isolated(task)}: ${map.method} minus ${before.method}`,
      `What training changed. ${unit}: + larger than before, − smaller.`, now.map((value, i) => value - then[i]), { signed: true });
  }));
  if (shown in TOKENS) {
    const there = Object.keys(TOKENS).filter((measure) => map.measures[measure]);
    const of = there.map((measure) => measured(map, measure, state.a).value), largest = Math.max(...of.flat());
    rowB.push(...there.map((measure, k) => draw(measure, `${isolated(state.a)}: ${TOKENS[measure]}`,
      "The mean largest attention weight of a token. The maps have one scale; a head that is strong only with all tokens rests on separators.", of[k], { largest })));
  }
  if (map.roles) rowB.push(rolesPanel(map, draw));
  const sortable = pair.filter((task) => measured(map, shown, task).low);
  const rowC = sortable.map((task, k) => {
    const of = measured(map, shown, task);
    const strongest = of.value.map((_, i) => i).filter((i) => of.low[i] > 0).sort(falling((i) => of.value[i])).slice(0, 5);
    const note = shown === "importance" ? "Mean and range over seeds." : "Increase of the loss without the head, and its interval over examples; hollow: it includes 0.";
    return panel({ id: `order-${"ab"[k]}`, title: `${title} for ${isolated(task)}, head by head`,
      note: note + (strongest.length ? ` The strongest: ${strongest.map((i) => named(map, i)).join(", ")}.` : ""),
      picture: () => ordered(of, worded(shown), { title: `${title} for ${task}, sorted`, act, hover }),
      names: [...placeNames(map), shown, "low", "high"], lines: of.value.map((value, i) => [...place(map, i), value, of.low[i], of.high[i]]).filter((_, i) => !absent(map, i)) });
  });
  setTimeout(markHeads);
  return [h("div", { class: "controls" }, controls, choice("choose-a", "first task", tasks, state.a, (value) => show({ a: value })),
    tasks.length > 1 ? choice("choose-b", "second task", [...tasks.filter((task) => task !== state.a), ...others], state.b, (value) => show({ b: value })) : null,
    measures.length > 1 ? choice("choose-table", "measure", measures.map((name) => [name, worded(name)]), shown, (value) => show({ table: value })) : null,
    trained.length ? choice("choose-before", "change from", [["none", "–"], ...trained.map((each) => each.method)], before ? before.method : "none", (value) => show({ before: value })) : null, slider()),
    h("div", { class: "grid maps" }, rowA, rowB), h("div", { class: "grid" }, rowC),
    hint, h("h3", {}, "Selected heads"), h("div", { id: "chosen" })];
}

/** Roles by shape and colour; the area of a mark is the importance for the first task. */
function rolesPanel(map, draw) {
  const { value } = measured(map, "importance", state.a), largest = Math.max(...value) || 1;
  return draw("roles", "Roles of heads", `What heads attend to in most seeds, whatever the task. Area: importance for ${isolated(state.a)}.`, value, {
    glyphs: (i) => map.roles.role[i] && ({ ...roleLook(map.roles.role[i]), r: 0.1 + 0.3 * Math.sqrt(value[i] / largest) }),
    words: (i) => `${headName(map, i)}: ${role(map, i)}`, legend: ROLES.filter((look) => map.roles.role.some((name) => name && roleLook(name) === look)),
    more: { role: map.roles.role, of: map.roles.of } });
}
