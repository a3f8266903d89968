// Measures: which of them finds the heads that matter, and how far they agree.
const beliefs = rows(VIEWS.belief), rankedCurves = rows(VIEWS.pruning_curves), agreements = rows(VIEWS.agreement);
PAGES.belief = { exists: () => beliefs.length || rankedCurves.length || agreements.length, draw: beliefView };

const rankings = unique(rankedCurves.map((row) => row.ranking)).filter((name) => name !== "random");

function beliefView() {
  const found = [beliefs, rankedCurves, agreements].find((of) => of.length);
  const controls = groupChoices(found);
  const of = beliefs.filter(ofRun), lines = rankedCurves.filter(ofRun), agreed = agreements.filter(ofRun);
  const tasks = unique([...of, ...lines, ...agreed].map((row) => row.task)).filter((task) => task !== "mean");
  const all = tasks.length > 1 ? ["mean"] : [];
  if (![...all, ...tasks].includes(state.task)) state.task = all[0] ?? tasks[0];
  const shown = state.task === "mean" ? tasks : [state.task];
  return [h("div", { class: "controls" }, controls,
    choice("choose-task", "task", [...all.map((name) => [name, "all, mean"]), ...tasks], state.task, (value) => show({ task: value }))),
  h("div", { class: "grid" }, beliefPanels(of.filter((row) => row.task === state.task || (tasks.length === 1 && row.task === tasks[0]))),
    shown.flatMap((task) => ["top", "bottom"].map((order) => rankedPanel(lines, task, order, tasks.indexOf(task))))),
  agreed.length ? agreementPanel(agreed.filter((row) => shown.includes(row.task))) : null];
}

/** Every ranking by its area, its agreement with ablation and its dissociation, the best on top. */
function beliefPanels(found) {
  const sorted = [...found].sort(rising((row) => row.area)), random = found.find((row) => row.ranking === "random");
  const one = (name, heading, note, label, per, filled, more = {}) => {
    const there = sorted.filter((row) => !missing(row[name]));
    return there.length ? panel({ id: name, title: heading, note, picture: forest(there.map((row) => ({
      group: state.task === "mean" ? "mean over tasks" : state.task, name: worded(row.ranking), index: row.ranking === "random" ? 5 : 0, value: row[name], low: row[`${name}_low`], high: row[`${name}_high`],
      hollow: row.unpruned_at_chance || !filled(row), printed: `${per(row[name])}${name === "dissociation" ? ` ${chance(row)}` : ""}`,
      detail: `${per(row[name])} ${interval(row[`${name}_low`], row[`${name}_high`], per)}${name === "area" && !missing(row.difference) ? `, minus one more random order ${percent(row.difference)} ${interval(row.difference_low, row.difference_high, percent)}, ${tested(row, "difference_p")}` : ""}` })),
    label, { slim: true, words: per === percent ? undefined : per, ...more }), ...lined(there) }) : null;
  };
  const decimals = (value) => number(value, 2), clear = (p) => (row) => !missing(row[p]) && row[p] < 0.05;
  const apart = (name) => (row) => row[`${name}_low`] > 0 || row[`${name}_high`] < 0;
  return [
    one("area", "Area under the pruning curve", "Mean metric while heads are pruned from the largest value on: the smaller, the better the measure finds heads that matter. Line: random orders; filled: p < 0.05 against one more of them.",
      "area, per cent", percent, clear("difference_p"), { free: true, compared: random && random.area }),
    one("dissociation", "Dissociation by each ranking", "D when the heads pruned for a task are those of the ranking. Filled: p < 0.05; † at chance, × even unpruned, ↓ unpruned below chance.", "D, per cent", percent, clear("dissociation_p")),
    one("ablation_spearman", "Agreement with ablation", "Rank correlation over heads with the increase of the loss without the head. Filled: the interval excludes 0.", "rank correlation", decimals, apart("ablation_spearman")),
    one("ablation_size_spearman", "Agreement with ablation size", "The same with the mean absolute change.", "rank correlation", decimals, apart("ablation_size_spearman"))];
}

/** The metric of a task as heads are pruned in the order of every measure, from one end. */
function rankedPanel(found, task, order, place) {
  const of = found.filter((row) => row.task === task && row.order === order).sort(rising((row) => row.fraction));
  if (!of.length) return null;
  const same = order === "top" ? found.filter((row) => row.task === task && row.order === "same_layers").sort(rising((row) => row.fraction)) : [];
  const points = (name, rows = of) => rows.filter((row) => row.ranking === name).map((row) => [row.fraction, row.value, row.draws_low, row.draws_high]);
  const series = rankings.map((name, index) => ({ name: worded(name), index, dash: index < 6 ? null : index < 12 ? "5 4" : "1 4", points: points(name) }));
  series.push(...rankings.map((name, index) => ({ name: `layers of ${worded(name)}`, index, dash: "1 2", points: points(name, same) })));
  series.push({ name: "random orders", index: 5, dash: "1 4", points: points("random") });
  return panel({ id: `ranked-${order}-${place}`, title: `${isolated(task)}: ${worded(of[0].metric)}, ${order} heads first`,
    note: order === "top" ? "Heads with the largest values are pruned first: the faster a line falls, the better the measure finds heads that matter. Band: range of random orders." + (same.length ? " \"Layers of\" a ranking: random orders with as many heads of each layer." : "")
      : "Heads with the smallest values are pruned first: the longer a line stays level, the better the measure finds heads that do not matter.",
    picture: curves(series.filter((one) => one.points.length), null, { title: `${task} as heads are pruned in the order of every measure`, x: "heads pruned, per cent" },
      pruned.find((row) => row.task === task && row.metric === of[0].metric)?.chance), ...lined([...of, ...same]) });
}

/** Every two measures: rank correlation below the diagonal, overlap of the top heads above it. */
function agreementPanel(found) {
  const names = unique(found.flatMap((row) => [row.measure_a, row.measure_b]));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const at = (a, b, below) => {
    const name = below ? "spearman" : "top_overlap", what = below ? "rank correlation" : "overlap of top heads";
    const of = found.filter((row) => [row.measure_a, row.measure_b].includes(a) && [row.measure_a, row.measure_b].includes(b) && !missing(row[name]));
    if (!of.length) return null;
    const values = of.map((row) => row[name]), decimals = (value) => number(value, 2);
    const ends = of.length > 1 ? `${decimals(Math.min(...values))} to ${decimals(Math.max(...values))} over tasks` : interval(of[0][`${name}_low`], of[0][`${name}_high`], decimals);
    return { value: mean(values), words: `${worded(a)} and ${worded(b)}, ${what}: ${decimals(mean(values))} ${ends}` };
  };
  return panel({ id: "agreement", title: "How far measures agree",
    note: "Below the diagonal: rank correlation over heads. Above it: overlap (Jaccard) of the top heads. Means over tasks; the table has every task and interval.",
    picture: pairs(names, at, "Agreement of every two measures"), ...lined(found) });
}
