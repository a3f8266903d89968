// Words: what tasks gain beside others, and what heads know of labels.
const shared = rows(VIEWS.sharing), known = rows(VIEWS.probes);
PAGES.words = { exists: () => shared.length || known.length, draw: wordsView };

function wordsView() {
  const all = [...shared, ...known], models = unique(all.map((row) => row.model));
  if (!models.includes(state.model)) state.model = models[0];
  const at = (row) => (row.mixture === "none" ? row.method : `${row.mixture} · ${row.method}`);
  const label = (row) => (row.task === row.metric || missing(row.metric)
    ? (row.task === "mean" ? "mean over tasks" : row.task) : `${row.task}, ${row.metric}`);
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
