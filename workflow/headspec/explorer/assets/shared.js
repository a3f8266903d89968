// What several views use: rows of tables that they share, choices of a run, the slider, and words.
const PAGES = {};  // of each view by its name in VIEWS of views.py: whether the study has it, and its drawing
const combined = rows(VIEWS.combined), fractions = rows(VIEWS.fractions), pruned = rows(VIEWS.pruning);
const GROUP = ["model", "mixture", "method"];
const present = unique([...combined, ...VIEWS.heads].map((row) => row.method));
const methods = [...DATA.methods.filter((name) => present.includes(name)), ...present.filter((name) => !DATA.methods.includes(name))];
const means = combined.filter((row) => row.task === "mean");
// D of each mixture by the first method that it has: the largest comes first, as in the summary
const largest = new Map([...means].sort((a, b) => methods.indexOf(b.method) - methods.indexOf(a.method)).map((row) => [`${row.model}\n${row.mixture}`, row.dissociation]));
const mixtures = [...largest.keys()], keyOf = (row) => `${row.model}\n${row.mixture}`;
const byD = (found) => [...found].sort((a, b) => falling((row) => largest.get(keyOf(row)))(a, b)
  || mixtures.indexOf(keyOf(a)) - mixtures.indexOf(keyOf(b)) || methods.indexOf(a.method) - methods.indexOf(b.method));
const sorted = (values) => [...values].sort(rising((value) => value));
const meanLast = (found) => [...found].sort((a, b) => (a.task === "mean") - (b.task === "mean"));
/** Whether a row is of the chosen model, mixture and method. */
const ofRun = (row) => GROUP.every((name) => row[name] === state[name]);
const chance = (row) => row.mark || "";
const chanceWords = (row) => (row.mark ? `, ${DATA.marks[row.mark]}` : "");
const CHANCES = "Hollow marks are at chance: † some pruned model, × even the unpruned model, which learnt nothing, so D counts for nothing; ↓ it is below chance, as where labels are swapped.";
/** A corrected p, and whether it is about other seeds; only then is a difference between ways of training clear. */
const tested = (row, name = "p") => `corrected p ${row.p_of === "these runs" ? "of these runs " : ""}${number(row[name])}`;
const sure = (row) => row.p_of !== "these runs" && !missing(row.p) && row.p < 0.05;
const pValue = (p) => (missing(p) ? "p –" : p < 0.001 ? "p < 0.001" : `p ${number(p)}`);
const caseOf = (row) => (row.distinct ? "distinct" : row.case ?? "–");
/** A sentence of the summary with true minus signs. */
const minus = (line) => line.replace(/(?<=^|[ [])-(?=\d)/g, "−");
const lined = (found) => { const names = Object.keys(found[0] || {}); return { names, lines: found.map((row) => names.map((name) => row[name])) }; };

/** Keep model, mixture and, if `group` has it, method among those that there are, or take the first. */
function settle(found, group) {
  for (const [i, name] of group.entries()) {
    const values = unique(found.filter((row) => group.slice(0, i).every((of) => row[of] === state[of])).map((row) => row[name]));
    if (!values.includes(state[name])) state[name] = values[0];
  }
}
function groupChoices(all, group = GROUP) {
  const models = unique(all.map((row) => row.model)), found = models.flatMap((model) => byD(all.filter((row) => row.model === model)));
  settle(found, group);
  return group.map((name, i) => choice(`choose-${name}`, name,
    unique(found.filter((row) => group.slice(0, i).every((of) => row[of] === state[of])).map((row) => row[name])),
    state[name], (value) => show({ [name]: value })));
}
const levels = () => sorted(unique([...fractions, ...pruned.filter((row) => row.order === "top")].filter(ofRun).map((row) => row.fraction).filter((value) => value > 0)));
function fraction() {
  const all = levels();
  const wanted = state.fraction === null ? (combined.find(ofRun) || {}).fraction : Number(state.fraction);
  return all.find((value) => Math.abs(value - wanted) < 1e-9) ?? all[0];
}
function slider() {
  const all = levels();
  if (!all.length) return null;
  const now = all.indexOf(fraction());
  return h("label", { class: "choice slider" }, h("span", {}, "heads pruned"),
    h("input", { type: "range", id: "fraction", min: 0, max: all.length - 1, step: 1, value: now, "aria-valuetext": percent(all[now], 0),
      oninput: (event) => show({ fraction: all[Number(event.target.value)] }, true) }),
    h("output", { for: "fraction" }, percent(all[now], 0)));
}

function open(row) { show({ view: "mixture", model: row.model, mixture: row.mixture, method: row.method }); }

/** A panel of differences in points; of each row `group` and `name` say what it is. */
function differences(of, id, title, note, group, name) {
  const clear = (row) => !row.unpruned_at_chance && sure(row);
  return panel({ id, title, note: `${note} Filled: corrected p < 0.05 for other seeds (three or more). ×: neither is better than chance.`,
    picture: forest(of.map((row) => ({ group: group(row), name: name(row), index: 0, hollow: !clear(row),
      value: row.difference, low: row.ci_low, high: row.ci_high, printed: `${points(row.difference, 2)} ${chance(row)}`,
      detail: `${points(row.difference, 2)} points ${interval(row.ci_low, row.ci_high, points)}, ${tested(row)}` })), "difference, points"), ...lined(of) });
}
/** A task with the metric that its value is of. */
const ofMetric = (row) => (row.task === "mean" ? "mean over tasks" : `${row.task}, ${row.metric}`);
