// Glossary and provenance.
PAGES.glossary = { exists: () => true, draw: glossaryView };
PAGES.provenance = { exists: () => true, draw: originView };

function glossaryView() {
  const lines = Object.entries(DATA.glossary);
  return h("dl", { class: "glossary" }, lines.map(([term, words]) => [h("dt", {}, term), h("dd", {}, words)]));
}

function originView() {
  const of = DATA.provenance, lines = Object.entries(of.tables);
  const copied = () => { said.textContent = "Copied"; };
  const select = () => getSelection().selectAllChildren(document.getElementById("config"));
  return [of.config ? h("section", { class: "panel" }, h("header", {}, h("h3", {}, "Config"), h("div", { class: "exports" },
    h("button", { type: "button", id: "copy", onclick: () => navigator.clipboard.writeText(of.config).then(copied, select) }, "Copy"),
    h("button", { type: "button", onclick: () => save("config.yaml", "text/plain", of.config) }, "Save"))), h("pre", { id: "config", tabindex: 0 }, of.config))
    : h("p", { class: "note" }, "The config is not in the results that this page was made from."),
  h("p", {}, `Seeds: ${of.seeds.join(", ") || "–"}`),
  panel({ id: "versions", title: "Versions", names: ["package", "version"], lines: of.versions.flatMap((each) => Object.entries(each)) }),
  panel({ id: "tables", title: "Tables", note: "With each, the first digits of the SHA-256 of its job's record.", names: ["table", "record"], lines })];
}
