// IAT and gates: what ways of training, and pruning methods, change.
const improved = rows(VIEWS.improvement), budgets = rows(VIEWS.budgets);
PAGES.iat = { exists: () => improved.length, draw: iatView };
PAGES.gates = { exists: () => budgets.length, draw: gatesView };

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
  const found = budgets.filter((row) => !missing(row.difference)), controls = groupChoices(found), ours = found.filter(ofRun);
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
