"use strict";
(() => {
  const { changes } = JSON.parse(document.getElementById("report").textContent);
  const area = document.getElementById("changes"), state = document.getElementById("state");
  const decisions = changes.map(() => "undecided");
  let selected = 0;
  const element = (name, className, text) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const number = (kind) => decisions.filter((decision) => decision === kind).length;

  function show() {
    [...area.children].forEach((row, place) => {
      row.className = decisions[place] + (place === selected ? " selected" : "");
      row.setAttribute("aria-current", place === selected);
    });
    state.textContent = `${number("accepted")} accepted, ${number("rejected")} rejected, ${number("undecided")} undecided`;
  }
  function select(place) {
    if (!changes.length) return;
    selected = Math.min(Math.max(place, 0), changes.length - 1);
    show();
    area.children[selected].scrollIntoView({ block: "nearest" });
  }
  function decide(place, decision) {
    if (!changes.length) return;
    decisions[place] = decision;
    select(decision === "undecided" ? place : place + 1);
  }
  function save() {
    const chosen = (kind) => changes.filter((_, place) => decisions[place] === kind);
    const content = { accepted: chosen("accepted"), rejected: chosen("rejected"), undecided: chosen("undecided") };
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1) + "\n"], { type: "application/json" }));
    link.download = "corrections.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  changes.forEach((change, place) => {
    const row = element("li"), text = element("div", "text"), buttons = element("div", "buttons");
    text.append(change.left ? `${change.left} ` : "", element("del", "", change.before), " ", element("ins", "", change.after));
    text.append(change.right ? ` ${change.right}` : "");
    const how = change.kind === "sound" ? `distance ${change.distance.toFixed(2)} per phone, probability ${change.probability.toFixed(2)}` : "spelling";
    const facts = element("div", "facts soft", `${change.utt}: ${how}${change.class ? `, ${change.class}` : ""}`);
    for (const [name, decision] of [["accept", "accepted"], ["reject", "rejected"]]) {
      const button = element("button", "", name);
      button.type = "button";
      button.addEventListener("click", (event) => { event.stopPropagation(); decide(place, decision); });
      buttons.append(button, " ");
    }
    row.append(text, facts, buttons);
    row.addEventListener("click", () => select(place));
    area.append(row);
  });
  document.getElementById("save").addEventListener("click", save);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      a: () => decide(selected, "accepted"), r: () => decide(selected, "rejected"), u: () => decide(selected, "undecided"),
      ArrowDown: () => select(selected + 1), ArrowUp: () => select(selected - 1), s: save,
    };
    if (event.key in actions) { event.preventDefault(); actions[event.key](); }
  });
  show();
})();
