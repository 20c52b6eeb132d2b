"use strict";
// Returns an element with a hypothesis aligned with its reference. Words are untrusted: set them as text content only.
function ninjaPairs(pairs) {
  const row = document.createElement("div");
  row.className = "pairs";
  for (const [reference, hypothesis] of pairs) {
    const kind = reference === null ? "insertion" : hypothesis === null ? "deletion" : reference === hypothesis ? "right" : "substitution";
    const pair = document.createElement("span");
    pair.className = `pair ${kind}`;
    pair.title = { insertion: "inserted", deletion: "deleted", right: "", substitution: "substituted" }[kind];
    for (const [name, word] of [["said", reference], ["heard", hypothesis]]) {
      const cell = document.createElement("span");
      cell.className = name;
      cell.textContent = word ?? "";
      pair.append(cell);
    }
    row.append(pair);
  }
  return row;
}
