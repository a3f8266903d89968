// Grouping: gains of pairs, measured and predicted.
const gains = rows(VIEWS.gains), predictions = rows(VIEWS.gain_predictions), ranking = rows(VIEWS.gain_prediction_scores);
PAGES.grouping = { exists: () => gains.length, draw: groupingView };

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
    picture: forest(scores.filter((row) => !missing(row.spearman)).sort((a, b) => a.held_out - b.held_out || falling((row) => row.spearman)(a, b)).map((row) => ({ group: row.held_out === 1 ? "one task left out" : "two tasks left out", name: worded(row.predictor), index: 0,
      value: row.spearman, low: row.spearman_low, high: row.spearman_high, hollow: missing(row.p_holm) || row.p_holm >= 0.05, printed: number(row.spearman, 2),
      detail: `${number(row.spearman, 2)} ${interval(row.spearman_low, row.spearman_high, (end) => number(end, 2))}, corrected p ${number(row.p_holm)}` })), "rank correlation", { words: (end) => number(end, 1) }),
    opened: true, ...lined(scores.map(({ model, ...row }) => row)) }) : null];
}
