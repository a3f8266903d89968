// Study and mixture: what was found, D, and what pruning does to the tasks of a mixture.
PAGES.study = { exists: () => VIEWS.found.length, draw: studyView };
PAGES.mixture = { exists: () => combined.length, draw: mixtureView };

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
/** The mark of a task that the unpruned model has not learnt. */
const unlearnt = (task) => combined.filter((row) => ofRun(row) && row.task === task && row.unpruned_at_chance).map((row) => ` ${row.mark}`).join("");
function matrix(now) {
  const tasks = unique(pruned.filter(ofRun).map((row) => row.task)), draws = ["random", "random_by_layer"];
  const at = pruned.filter((row) => ofRun(row) && (row.pruned_for === "none" || (row.order !== "bottom" && Math.abs(row.fraction - now) < 1e-9)));
  const base = Object.fromEntries(at.filter((row) => row.pruned_for === "none").map((row) => [row.task, row.mean]));
  const whose = ["none", ...tasks, ...draws].filter((name) => at.some((row) => row.pruned_for === name));
  const wide = Math.max(84, Math.min(130, 460 / tasks.length)), left = 150, high = 30;
  const cells = whose.map((name, i) => [text(0, 60 + i * high, cut(name === "none" ? "no heads" : owner({ pruned_for: name }, draws), 19)),
    tasks.map((task, j) => {
      const row = at.find((each) => each.pruned_for === name && each.task === task);
      const lost = base[task] && !missing(row.mean) ? Math.max(0, 1 - row.mean / base[task]) : 0;
      const words = `heads of ${isolated(name)} pruned, ${isolated(task)}: ${row.metric} ${percent(row.mean)}`;
      return [mark("rect", { x: left + j * wide + 1, y: 40 + i * high, width: wide - 2, height: high - 2, rx: 3,
        class: "cell above", "fill-opacity": (0.04 + Math.min(0.51, lost)).toFixed(3), "data-value": row.mean }, words),
      name === task ? s("rect", { x: left + j * wide + 3, y: 42 + i * high, width: wide - 6, height: high - 6, rx: 2, class: "own", "aria-hidden": "true" }) : null,
      text(left + (j + 0.5) * wide, 59 + i * high, hundredths(row.mean), { "text-anchor": "middle", class: "number", "aria-hidden": "true" })];
    })]);
  return panel({ id: "matrix", title: `What pruning ${percent(now, 0)} of heads does`,
    note: "Metric in per cent. Rows: whose most important heads are pruned. Columns: the task evaluated. The stronger the colour, the more of the unpruned value is lost; a frame marks a task's own heads; × or ↓, a task that the unpruned model has not learnt.",
    picture: picture(left + wide * tasks.length + 4, 46 + high * whose.length, "Pruning matrix",
      text(0, 24, "heads pruned of", { class: "label" }),
      tasks.map((task, j) => text(left + (j + 0.5) * wide, 24, cut(task, 13) + unlearnt(task), { "text-anchor": "middle", class: "group" })), cells), ...lined(at) });
}
function mixtureView() {
  const controls = h("div", { class: "controls" }, groupChoices(combined), slider());
  const now = fraction(), parts = [controls];
  const at = meanLast(fractions.filter((row) => ofRun(row) && Math.abs(row.fraction - now) < 1e-9));
  if (pruned.some(ofRun)) parts.push(matrix(now));
  if (at.length) parts.push(panel({ id: "tasks", title: `D of each task, ${percent(now, 0)} of heads pruned`,
    note: `In per cent, with its interval. ${CHANCES} The mean is that of the mixture.`,
    picture: forest(at.map((row) => ({ group: state.mixture, name: row.task, index: taskLook(row.task), hollow: Boolean(chance(row)), value: row.dissociation,
      low: row.ci_low, high: row.ci_high, printed: `${percent(row.dissociation)} ${chance(row)}`,
      detail: `D ${percent(row.dissociation)} ${interval(row.ci_low, row.ci_high, percent)}${chanceWords(row)}` })), "D, per cent"), ...lined(at) }));
  const curved = unique(pruned.filter(ofRun).map((row) => row.task)).map((task, i) => {
    const of = pruned.filter((row) => ofRun(row) && row.task === task), base = of.find((row) => row.pruned_for === "none");
    const series = unique(of.filter((row) => row.order).map((row) => `${row.order} ${row.pruned_for}`)).map((name) => {
      const line = of.filter((row) => `${row.order} ${row.pruned_for}` === name).sort(rising((row) => row.fraction));
      return { line, name: line[0].pruned_for === task ? `${line[0].order}, own` : `${line[0].order}, ${line[0].pruned_for}` };
    }).filter(({ line }) => line[0].order === "top" || line[0].pruned_for === task)
      .map(({ line, name }) => ({ name, index: taskLook(line[0].pruned_for), dash: line[0].order === "bottom" ? "5 4" : null,
        points: [[0, base.mean], ...line.map((row) => [row.fraction, row.mean])] }));
    const random = of.filter((row) => row.pruned_for === "random");
    if (random.length) series.push({ name: "random", index: 5, dash: "1 4", points: random.map((row) => [row.fraction, row.mean, row.min, row.max]) });
    const drawn = !random.length ? "" : `Box: mean and range of random draws and seeds${random[0].n < base.n ? `, each on ${random[0].n} of ${base.n} examples` : ""}. `;
    return panel({ id: `curve-${i}`, title: `${isolated(task)}${unlearnt(task)}: ${worded(of[0].metric)} as heads are pruned`,
      note: `Means over seeds, in per cent. ${drawn}A task's heads have its colour. The upright line is at the slider.`,
      picture: curves(series, now, { title: `${task} against the fraction of heads pruned`, x: "heads pruned, per cent" }, of[0].chance), ...lined(of) });
  });
  parts.push(h("div", { class: "grid" }, curved));
  return [...parts, chosenNote()];
}
