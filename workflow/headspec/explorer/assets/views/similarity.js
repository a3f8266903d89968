// Similarity: D against it, and that of every two tasks.
const likenesses = rows(VIEWS.similarity), correlations = rows(VIEWS.correlation);
PAGES.similarity = { exists: () => likenesses.length, draw: similarityView };

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
    return found && !missing(found.similarity) && !missing(row.dissociation) ? [{ ...row, similarity: found.similarity }] : [];
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
    note: "Points are mixtures of two tasks, with the interval of D, and open them. " + CHANCES +
      (fit ? ` r = ${number(fit.pearson_r, 2)} over ${fit.n_pairs} pairs, ${pValue(fit.p_mantel)} by the Mantel test.` : ""),
    picture: scatter(byD(mixtures).map((row, i) => ({ x: row.similarity, y: row.dissociation, low: row.ci_low, high: row.ci_high, index: methods.indexOf(row.method), act: () => open(row), mark: i + 1, name: row.mixture, hollow: Boolean(chance(row)), chance: chance(row),
      words: `${isolated(row.mixture)}, ${row.method}: similarity ${number(row.similarity)}, D ${percent(row.dissociation)}${chanceWords(row)}` })), { title: "Dissociation against similarity", x: `similarity (${state.measure})` }), ...lined(mixtures) }) : null,
  panel({ id: "tasks-similarity", title: `Similarity of every two tasks (${state.measure})`, note: "At most 1; the stronger the colour, the more alike. Mean over seeds.",
    picture: pairs(unique(of.flatMap((row) => [row.task_a, row.task_b])), alike, "Similarity of every two tasks"), ...lined(of) })];
}
