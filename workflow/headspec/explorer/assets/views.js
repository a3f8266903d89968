// The views: each says whether the study has it, and draws its panels.
const combined = rows(VIEWS.combined), fractions = rows(VIEWS.fractions), pruned = rows(VIEWS.pruning);
const improved = rows(VIEWS.improvement), budgets = rows(VIEWS.budgets), beliefs = rows(VIEWS.belief);
const shared = rows(VIEWS.sharing), known = rows(VIEWS.probes), ranked = rows(VIEWS.pruning_curves);
const agreements = rows(VIEWS.agreement), likenesses = rows(VIEWS.similarity), correlations = rows(VIEWS.correlation);
const gains = rows(VIEWS.gains), predictions = rows(VIEWS.gain_predictions), ranking = rows(VIEWS.gain_prediction_scores);
const GROUP = ["model", "mixture", "method"];
const present = unique([...combined, ...VIEWS.heads].map((row) => row.method));
const methods = [...DATA.methods.filter((name) => present.includes(name)), ...present.filter((name) => !DATA.methods.includes(name))];
const means = combined.filter((row) => row.task === "mean");
// D of each mixture by the first method that it has: the largest comes first, as in the summary
const largest = new Map([...means].sort((a, b) => methods.indexOf(b.method) - methods.indexOf(a.method)).map((row) => [`${row.model}\n${row.mixture}`, row.dissociation ?? -Infinity]));
const ofMixture = (row) => largest.get(`${row.model}\n${row.mixture}`) ?? -Infinity;
const byD = (found) => [...found].sort((a, b) => ofMixture(b) - ofMixture(a) || methods.indexOf(a.method) - methods.indexOf(b.method));
const sorted = (values) => [...values].sort((a, b) => a - b);
const meanLast = (found) => [...found].sort((a, b) => (a.task === "mean") - (b.task === "mean"));
const given = (row) => GROUP.every((name) => row[name] === state[name]);
const chance = (row) => (row.unpruned_at_chance ? "×" : row.at_chance ? "†" : "");
const chanceWords = (row) => (row.unpruned_at_chance ? ", unpruned model at chance" : row.at_chance ? ", at chance" : "");
const CHANCES = "Hollow marks are at chance: † some pruned model, × even the unpruned model, which learnt nothing, so D counts for nothing.";
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
const levels = () => sorted(unique([...fractions, ...pruned.filter((row) => row.order === "top")].filter(given).map((row) => row.fraction).filter((value) => value > 0)));
function fraction() {
  const all = levels();
  const wanted = state.fraction === null ? (combined.find(given) || {}).fraction : Number(state.fraction);
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
function studyView() {
  const about = unique(means.map((row) => row.p_of)).includes("these runs") ? "p of these runs says nothing about other seeds. " : "";
  return [h("ul", { class: "found", "aria-label": "What was found" }, VIEWS.found.map((line) => h("li", { dir: "auto" }, minus(line)))),
    unique(means.map((row) => row.model)).map((model, i) => {
      const of = byD(means.filter((row) => row.model === model));
      return panel({ id: `study-${i}`, title: `Dissociation of ${isolated(model)}, ${percent(of[0].fraction, 0)} of heads pruned`,
        note: "D: how much more a task loses when its own heads are pruned than when the others' are, per cent of its unpruned metric. " +
          `Mean over the tasks of a mixture, the largest first, with its interval and corrected p. ${about}${CHANCES} Select a mark to open its mixture.`,
        picture: forest(of.map((row) => ({ group: row.mixture, name: row.method, index: methods.indexOf(row.method), hollow: Boolean(chance(row)),
          value: row.dissociation, low: row.ci_low, high: row.ci_high, act: () => open(row),
          printed: `${[percent(row.dissociation), chance(row)].join(" ").trim()}, ${pValue(row.p)}${PHONE.matches ? "" : `, ${caseOf(row)}`}`,
          detail: `D ${percent(row.dissociation)} ${interval(row.ci_low, row.ci_high, percent)}, ${tested(row)}, ${caseOf(row)}${chanceWords(row)}` })), "mean D, per cent", { room: PHONE.matches ? 112 : 178 }),
        ...lined(of) });
    })];
}

const owner = (row, draws) => (draws.includes(row.pruned_for) ? row.pruned_for.replaceAll("_", " ") : row.pruned_for);
function matrix(now) {
  const tasks = unique(pruned.filter(given).map((row) => row.task)), draws = ["random", "random_by_layer"];
  const at = pruned.filter((row) => given(row) && (row.pruned_for === "none" || (row.order !== "bottom" && Math.abs(row.fraction - now) < 1e-9)));
  const base = Object.fromEntries(at.filter((row) => row.pruned_for === "none").map((row) => [row.task, row.mean]));
  const whose = ["none", ...tasks, ...draws].filter((name) => at.some((row) => row.pruned_for === name));
  const wide = Math.max(84, Math.min(130, 460 / tasks.length)), left = 150, high = 30;
  const cells = whose.map((name, i) => [text(0, 60 + i * high, cut(name === "none" ? "no heads" : owner({ pruned_for: name }, draws), 19)),
    tasks.map((task, j) => {
      const row = at.find((each) => each.pruned_for === name && each.task === task);
      const lost = base[task] ? Math.max(0, 1 - row.mean / base[task]) : 0;
      const words = `heads of ${isolated(name)} pruned, ${isolated(task)}: ${row.metric} ${percent(row.mean)}`;
      return [mark("rect", { x: left + j * wide + 1, y: 40 + i * high, width: wide - 2, height: high - 2, rx: 3,
        class: "cell above", "fill-opacity": (0.04 + Math.min(0.51, lost)).toFixed(3), "data-value": row.mean }, words),
      name === task ? s("rect", { x: left + j * wide + 3, y: 42 + i * high, width: wide - 6, height: high - 6, rx: 2, class: "own", "aria-hidden": "true" }) : null,
      text(left + (j + 0.5) * wide, 59 + i * high, number(100 * row.mean, 1), { "text-anchor": "middle", class: "number", "aria-hidden": "true" })];
    })]);
  return panel({ id: "matrix", title: `What pruning ${percent(now, 0)} of heads does`,
    note: "Metric in per cent. Rows: whose most important heads are pruned. Columns: the task evaluated. The stronger the colour, the more of the unpruned value is lost; a frame marks a task's own heads.",
    picture: picture(left + wide * tasks.length + 4, 46 + high * whose.length, "Pruning matrix",
      text(0, 24, "heads pruned of", { class: "label" }),
      tasks.map((task, j) => text(left + (j + 0.5) * wide, 24, cut(task, 13), { "text-anchor": "middle", class: "group" })), cells), ...lined(at) });
}
function mixtureView() {
  const controls = h("div", { class: "controls" }, groupChoices(combined), slider());
  const now = fraction(), parts = [controls];
  const at = meanLast(fractions.filter((row) => given(row) && Math.abs(row.fraction - now) < 1e-9));
  if (pruned.some(given)) parts.push(matrix(now));
  if (at.length) parts.push(panel({ id: "tasks", title: `D of each task, ${percent(now, 0)} of heads pruned`,
    note: `In per cent, with its interval. ${CHANCES} The mean is that of the mixture.`,
    picture: forest(at.map((row) => ({ group: state.mixture, name: row.task, index: taskLook(row.task), hollow: Boolean(chance(row)), value: row.dissociation,
      low: row.ci_low, high: row.ci_high, printed: `${percent(row.dissociation)} ${chance(row)}`,
      detail: `D ${percent(row.dissociation)} ${interval(row.ci_low, row.ci_high, percent)}${chanceWords(row)}` })), "D, per cent"), ...lined(at) }));
  const curved = unique(pruned.filter(given).map((row) => row.task)).map((task, i) => {
    const of = pruned.filter((row) => given(row) && row.task === task), base = of.find((row) => row.pruned_for === "none");
    const series = unique(of.filter((row) => row.order).map((row) => `${row.order} ${row.pruned_for}`)).map((name) => {
      const line = of.filter((row) => `${row.order} ${row.pruned_for}` === name).sort((a, b) => a.fraction - b.fraction);
      return { line, name: line[0].pruned_for === task ? `${line[0].order}, own` : `${line[0].order}, ${line[0].pruned_for}` };
    }).filter(({ line }) => line[0].order === "top" || line[0].pruned_for === task)
      .map(({ line, name }) => ({ name, index: taskLook(line[0].pruned_for), dash: line[0].order === "bottom" ? "5 4" : null,
        points: [[0, base.mean], ...line.map((row) => [row.fraction, row.mean])] }));
    const random = of.filter((row) => row.pruned_for === "random");
    if (random.length) series.push({ name: "random", index: 5, dash: "1 4", points: random.map((row) => [row.fraction, row.mean, row.min, row.max]) });
    const drawn = !random.length ? "" : `Box: mean and range of random draws and seeds${random[0].n < base.n ? `, each on ${random[0].n} of ${base.n} examples` : ""}. `;
    return panel({ id: `curve-${i}`, title: `${isolated(task)}: ${worded(of[0].metric)} as heads are pruned`,
      note: `Means over seeds, in per cent. ${drawn}A task's heads have its colour. The upright line is at the slider.`,
      picture: curves(series, now, { title: `${task} against the fraction of heads pruned`, x: "heads pruned, per cent" }, of[0].chance), ...lined(of) });
  });
  parts.push(h("div", { class: "grid" }, curved));
  return [...parts, chosenNote()];
}

function similarityView() {
  const models = unique(likenesses.map((row) => row.model));
  if (!models.includes(state.model)) state.model = models[0];
  const measures = unique(likenesses.filter((row) => row.model === state.model).map((row) => row.measure));
  if (!measures.includes(state.measure)) state.measure = measures[0];
  const of = likenesses.filter((row) => row.model === state.model && row.measure === state.measure);
  const ofModel = means.filter((row) => row.model === state.model), trained = methods.filter((name) => ofModel.some((row) => row.method === name));
  if (!trained.includes(state.method)) state.method = trained[0] ?? null;
  const mixtures = ofModel.filter((row) => row.method === state.method).flatMap((row) => {
    const tasks = combined.filter((each) => GROUP.every((name) => each[name] === row[name]) && each.task !== "mean").map((each) => each.task);
    const found = tasks.length === 2 && of.find((each) => tasks.includes(each.task_a) && tasks.includes(each.task_b) && each.task_a !== each.task_b);
    return found && !missing(found.similarity) ? [{ ...row, similarity: found.similarity }] : [];
  });
  const alike = (a, b, below) => {
    const row = below && of.find((each) => (each.task_a === a && each.task_b === b) || (each.task_a === b && each.task_b === a));
    return row && !missing(row.similarity) ? { value: row.similarity, words: `${isolated(a)} and ${isolated(b)}: ${number(row.similarity)} ${interval(row.ci_low, row.ci_high)}` } : null;
  };
  // the study correlates D of its first method
  const fit = state.method === trained[0] && correlations.find((row) => row.model === state.model && row.measure === state.measure);
  return [h("div", { class: "controls" }, choice("choose-model", "model", models, state.model, (value) => show({ model: value })),
    trained.length > 1 ? choice("choose-method", "method", trained, state.method, (value) => show({ method: value })) : null,
    choice("choose-measure", "measure of similarity", measures, state.measure, (value) => show({ measure: value }))),
  mixtures.length ? panel({ id: "similarity", title: `Dissociation against similarity (${state.measure}), ${state.method}`,
    note: "Points are mixtures of two tasks, with the interval of D, and open them." +
      (fit ? ` r = ${number(fit.pearson_r, 2)} over ${fit.n_pairs} pairs, ${pValue(fit.p_mantel)} by the Mantel test.` : ""),
    picture: scatter(byD(mixtures).map((row, i) => ({ x: row.similarity, y: row.dissociation, low: row.ci_low, high: row.ci_high, index: methods.indexOf(row.method), act: () => open(row), mark: i + 1, name: row.mixture, hollow: Boolean(chance(row)),
      words: `${isolated(row.mixture)}, ${row.method}: similarity ${number(row.similarity)}, D ${percent(row.dissociation)}${chanceWords(row)}` })), { title: "Dissociation against similarity", x: `similarity (${state.measure})` }), ...lined(mixtures) }) : null,
  panel({ id: "tasks-similarity", title: `Similarity of every two tasks (${state.measure})`, note: "At most 1; the stronger the colour, the more alike. Mean over seeds.",
    picture: pairs(unique(of.flatMap((row) => [row.task_a, row.task_b])), alike, "Similarity of every two tasks"), ...lined(of) })];
}

/** A panel of differences in points; of each row `group` and `name` say what it is. */
function differences(of, id, title, note, group, name) {
  const clear = (row) => !row.unpruned_at_chance && (row.ci_low > 0 || row.ci_high < 0) && sure(row);
  return panel({ id, title, note: `${note} Filled: the interval excludes 0, and corrected p < 0.05, also for other seeds (three or more). ×: neither is better than chance.`,
    picture: forest(of.map((row) => ({ group: group(row), name: name(row), index: 0, hollow: !clear(row),
      value: row.difference, low: row.ci_low, high: row.ci_high, printed: `${points(row.difference, 2)} ${chance(row)}`,
      detail: `${points(row.difference, 2)} points ${interval(row.ci_low, row.ci_high, points)}, ${tested(row)}` })), "difference, points"), ...lined(of) });
}
/** A task with the metric that its value is of. */
const ofMetric = (row) => (row.task === "mean" ? "mean over tasks" : `${row.task}, ${row.metric}`);
function iatView() {
  const found = improved.filter((row) => !missing(row.difference)), controls = groupChoices(found, GROUP.slice(0, 2));
  const ours = found.filter((row) => row.model === state.model && row.mixture === state.mixture), tasks = unique(ours.map((row) => row.task));
  if (!tasks.includes(state.task)) state.task = tasks.includes("mean") ? "mean" : tasks[0];
  const label = (row) => `${ofMetric(row)}: minus ${row.against}`;
  const of = ours.filter((row) => row.task === state.task).sort((a, b) => label(a).localeCompare(label(b)));
  return [h("div", { class: "controls" }, controls, choice("choose-task", "task", tasks, state.task, (value) => show({ task: value }))),
    differences(of, "iat", "What the way of training changes", "Each way of training minus the one that its group names, with its interval.", label, (row) => row.method)];
}
/** Heads that a pruning method keeps: those asked for, or what a penalty left open. */
const keeps = (row) => (missing(row.fraction) ? `${missing(row.penalty) ? "left open" : `penalty ${row.penalty}`}${missing(row.heads) ? "" : `, ${number(row.heads, 0)} heads`}`
  : `${percent(row.fraction, 0)} of heads${row.missed > 0 ? ", target missed" : ""}`);
function gatesView() {
  const found = budgets.filter((row) => !missing(row.difference)), controls = groupChoices(found), ours = found.filter(given);
  const count = (name) => ours.filter((row) => row.against === name).length;
  const against = unique(ours.map((row) => row.against)).sort((a, b) => count(b) - count(a)), tasks = unique(ours.map((row) => row.task));
  if (!against.includes(state.measure)) state.measure = against[0];
  if (!tasks.includes(state.task)) state.task = tasks.includes("mean") ? "mean" : tasks[0];
  const of = ours.filter((row) => row.against === state.measure && row.task === state.task);
  const many = (name) => unique(of.map((row) => row[name])).length > 1;
  const label = (row) => [row.way, many("scope") ? `${row.scope.replace("_", " ")}` : null, many("metric") ? row.metric : null].filter(Boolean).join(", ");
  return [h("div", { class: "controls" }, controls, choice("choose-against", "compared with", against, state.measure, (value) => show({ measure: value })),
    tasks.length > 1 ? choice("choose-task", "task", tasks, state.task, (value) => show({ task: value })) : null),
  differences(of.sort((a, b) => label(a).localeCompare(label(b)) || (a.fraction ?? 2) - (b.fraction ?? 2) || (a.penalty ?? 0) - (b.penalty ?? 0)), "gates", "Pruning methods",
    `${of.length ? capital(many("metric") ? state.task : ofMetric(of[0])) : ""}: each method minus ${state.measure === "whole" ? "the model with all heads" : state.measure}, with its interval.`, label, keeps)];
}

function wordsView() {
  const all = [...shared, ...known], models = unique(all.map((row) => row.model));
  if (!models.includes(state.model)) state.model = models[0];
  const at = (row) => (row.mixture === "none" ? row.method : `${row.mixture} · ${row.method}`);
  const label = (row) => (row.task === row.metric || missing(row.metric) ? (row.task === "mean" ? "mean over tasks" : row.task) : `${row.task}, ${row.metric}`);
  const ours = (found, name) => found.filter((row) => row.model === state.model && !missing(row[name]))
    .sort((a, b) => (b.task === "mean") - (a.task === "mean") || label(a).localeCompare(label(b)));
  const changes = ours(shared, "difference"), knows = ours(known, "selectivity");
  return [h("div", { class: "controls" }, choice("choose-model", "model", models, state.model, (value) => show({ model: value }))),
    changes.length ? differences(changes, "sharing", "What tasks gain or lose beside others", "Difference from the task trained alone, with its interval.", label, at) : null,
    knows.length ? panel({ id: "known", title: "What the best heads know of labels",
      note: "Share of words that are right, minus control, with its interval; the best head of every label is chosen on other sentences.",
      picture: forest(knows.map((row) => ({ group: label(row), name: at(row), index: 0, value: row.selectivity, low: row.selectivity_low, high: row.selectivity_high,
        printed: points(row.selectivity), detail: `${points(row.selectivity)} points ${interval(row.selectivity_low, row.selectivity_high, points)}` })), "selectivity, points"), ...lined(knows) }) : null];
}

/** A matrix of gains, measured or by one of the predictors, and how well each of these ranks them. */
function groupingView() {
  const models = unique(gains.map((row) => row.model));
  if (!models.includes(state.model)) state.model = models[0];
  const ours = (found) => found.filter((row) => row.model === state.model), measured = ours(gains), guesses = ours(predictions), scores = ours(ranking);
  const predictors = unique(guesses.map((row) => row.predictor)), by = predictors.includes(state.predictor) ? state.predictor : "";
  const pair = (row) => `${row.target}\n${row.source}`, truth = new Map(measured.map((row) => [pair(row), row]));
  const shown = by ? guesses.filter((row) => row.predictor === by) : measured, value = (row) => (by ? row.predicted : row.difference);
  const largest = Math.max(0.01, ...[...shown.map(value), ...measured.map((row) => row.difference)].map(Math.abs));
  const found = new Map(shown.filter((row) => !missing(value(row))).map((row) => [pair(row), row]));
  const told = (row) => `${points(row.difference)} points ${interval(row.ci_low, row.ci_high, points)}, ${tested(row)}; ` +
    `${worded(row.metric)} ${percent(row.alone)} alone, ${percent(row.value)} in the pair${row.unpruned_at_chance ? ", no better than chance" : ""}`;
  const at = (target, source) => {
    const row = found.get(`${target}\n${source}`), of = truth.get(`${target}\n${source}`);
    const clear = !by && row && (chance(row) || (sure(row) ? "*" : ""));
    return row && { value: value(row), share: -value(row) / largest, printed: `${points(value(row), PHONE.matches ? 0 : 1)}${clear || ""}`,
      words: `${isolated(target)} with ${isolated(source)}: ${by ? `predicted ${points(row.predicted)} points` : ""}${by && of ? "; measured " : ""}${of ? told(of) : ""}` };
  };
  const tasks = unique(measured.flatMap((row) => [row.source, row.target])).sort();
  const hint = h("div", { class: "hint", id: "hint" }, h("p", { class: "note" }, "Point at a gain, or move to it with the arrow keys, to read its interval."));
  const title = by ? `Gains predicted by ${worded(by)}` : "Gains measured in pairs";
  return [h("div", { class: "controls" }, choice("choose-model", "model", models, state.model, (name) => show({ model: name })),
    predictors.length ? choice("choose-predictor", "gains", [["", "measured"], ...predictors.map((name) => [name, `predicted by ${worded(name)}`])], by, (name) => show({ predictor: name || null })) : null),
  panel({ id: "gains", title, note: "Rows: the task that gains or loses; columns: the task that it is trained with. Points over the row's task trained alone. Orange: gained; blue: lost. " +
      (by ? "Predicted from pairs without one of the two tasks." : "*: corrected p < 0.05, also for other seeds (three or more); ×: neither is better than chance."),
    picture: pairs(tasks, at, title, (words) => hint.replaceChildren(h("p", {}, words))), ...lined(shown) }), hint,
  scores.some((row) => !missing(row.spearman)) ? panel({ id: "predictors", title: "How well gains are predicted",
    note: "Rank correlation of predicted and measured gains of tasks that were left out, with its interval. Filled: corrected p < 0.05 with tasks permuted.",
    picture: forest(scores.filter((row) => !missing(row.spearman)).sort((a, b) => a.held_out - b.held_out || b.spearman - a.spearman).map((row) => ({ group: row.held_out === 1 ? "one task left out" : "two tasks left out", name: worded(row.predictor), index: 0,
      value: row.spearman, low: row.spearman_low, high: row.spearman_high, hollow: missing(row.p_holm) || row.p_holm >= 0.05, printed: number(row.spearman, 2),
      detail: `${number(row.spearman, 2)} ${interval(row.spearman_low, row.spearman_high, (end) => number(end, 2))}, corrected p ${number(row.p_holm)}` })), "rank correlation", { words: (end) => number(end, 1) }),
    opened: true, ...lined(scores.map(({ model, ...row }) => row)) }) : null];
}

function glossaryView() {
  return h("dl", { class: "glossary" }, Object.entries(DATA.glossary).map(([term, words]) => [h("dt", {}, term), h("dd", {}, words)]));
}
function originView() {
  const of = DATA.provenance, lines = Object.entries(of.tables);
  return [of.config ? h("section", { class: "panel" }, h("header", {}, h("h3", {}, "Config"), h("div", { class: "exports" }, h("button", { type: "button", id: "copy",
      onclick: () => navigator.clipboard.writeText(of.config).then(() => { said.textContent = "Copied"; }, () => getSelection().selectAllChildren(document.getElementById("config"))) }, "Copy"),
    h("button", { type: "button", onclick: () => save("config.yaml", "text/plain", of.config) }, "Save"))), h("pre", { id: "config", tabindex: 0 }, of.config))
    : h("p", { class: "note" }, "The config is not in the results that this page was made from."),
  h("p", {}, `Seeds: ${of.seeds.join(", ") || "–"}`),
  panel({ id: "versions", title: "Versions", names: ["package", "version"], lines: of.versions.flatMap((each) => Object.entries(each)) }),
  panel({ id: "tables", title: "Tables", note: "With each, the first digits of the SHA-256 of its job's record.", names: ["table", "record"], lines })];
}

const PAGES = [
  { id: "study", name: "Study", exists: () => VIEWS.found.length, draw: studyView },
  { id: "mixture", name: "Mixture", exists: () => combined.length, draw: mixtureView },
  { id: "heads", name: "Heads", exists: () => VIEWS.heads.length, draw: headsView },
  { id: "belief", name: "Measures", exists: () => beliefs.length || ranked.length || agreements.length, draw: beliefView },
  { id: "similarity", name: "Similarity", exists: () => likenesses.length, draw: similarityView },
  { id: "iat", name: "IAT", exists: () => improved.length, draw: iatView },
  { id: "gates", name: "Gates", exists: () => budgets.length, draw: gatesView },
  { id: "words", name: "Words", exists: () => shared.length || known.length, draw: wordsView },
  { id: "grouping", name: "Grouping", exists: () => gains.length, draw: groupingView },
  { id: "glossary", name: "Glossary", exists: () => true, draw: glossaryView },
  { id: "provenance", name: "Provenance", exists: () => true, draw: originView },
];
