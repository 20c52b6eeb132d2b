"use strict";
// A hypothesis laid beside its reference, for everybody who shows one. Words are data: they are only ever set as text.
function ninjaPairs(pairs) {
  const row = document.createElement("div");
  row.className = "pairs";
  for (const [said, heard] of pairs) {
    const kind = said === null ? "insertion" : heard === null ? "deletion" : said === heard ? "right" : "substitution";
    const pair = document.createElement("span");
    pair.className = `pair ${kind}`;
    pair.title = { insertion: "inserted", deletion: "deleted", right: "", substitution: "substituted" }[kind];
    for (const [name, word] of [["said", said], ["heard", heard]]) {
      const cell = document.createElement("span");
      cell.className = name;
      cell.textContent = word ?? "";
      pair.append(cell);
    }
    row.append(pair);
  }
  return row;
}
