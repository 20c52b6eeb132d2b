"use strict";
(() => {
  const LISTED = 10, PAGE = 100;
  const { utterances, lattices } = JSON.parse(document.getElementById("report").textContent);
  const change = (utterance) => utterance.after.errors - utterance.before.errors;
  const signed = (value) => (value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0");
  const element = (name, className, text) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const kind = (value) => (value < 0 ? "good" : value > 0 ? "bad" : "");
  const hash = (side, key) => `#${side}/${encodeURIComponent(key)}`;

  // ---- Alignments.
  function compared(utterance) {
    const area = element("div", "compared");
    const reference = utterance.before.pairs.map((pair) => pair[0]).filter((word) => word !== null);
    area.append(element("div", "name", "said"), element("div", "", reference.join(" ") || "(nothing)"));
    for (const side of ["before", "after"]) area.append(element("div", "name", side), ninjaPairs(utterance[side].pairs));
    return area;
  }
  function links(utterance) {
    const area = element("span");
    (lattices[utterance.key] || []).forEach((lattice, number) => {
      if (!lattice) return;
      const side = ["before", "after"][number], link = element("a", "", number ? "after" : "before");
      link.href = hash(side, utterance.key);
      area.append(area.childNodes.length ? " " : "lattice: ", link);
    });
    return area;
  }
  function list(area, chosen) {
    area.replaceChildren();
    for (const utterance of chosen.slice(0, LISTED)) {
      const block = element("div", "utterance"), title = element("div", "title");
      title.append(element("b", "", utterance.key), element("span", kind(change(utterance)), `${signed(change(utterance))} errors`));
      title.append(element("span", "soft", `${utterance.before.errors} → ${utterance.after.errors} of ${utterance.words} words`), links(utterance));
      block.append(title, compared(utterance));
      area.append(block);
    }
    if (!chosen.length) area.append(element("div", "soft", "none"));
  }
  const ranked = (sign) => utterances.filter((utterance) => sign * change(utterance) > 0).sort((one, other) => sign * (change(other) - change(one)));
  list(document.querySelector("#gained .list"), ranked(-1));
  list(document.querySelector("#lost .list"), ranked(1));

  // ---- The table of all utterances.
  const columns = [
    ["utterance", (utterance) => utterance.key], ["words", (utterance) => utterance.words],
    ["errors before", (utterance) => utterance.before.errors], ["after", (utterance) => utterance.after.errors], ["change", change],
    ["oracle before", (utterance) => utterance.before.oracle], ["after", (utterance) => utterance.after.oracle],
    ["depth before", (utterance) => utterance.before.depth], ["after", (utterance) => utterance.after.depth],  // from here on, numbers have decimal places
  ];
  let order = { column: 4, down: false }, limit = PAGE, wanted = "";
  const all = document.getElementById("all"), body = all.querySelector("tbody"), more = all.querySelector(".more");
  const heading = all.querySelector("thead").insertRow();
  columns.forEach(([name], column) => {
    const cell = element("th"), button = element("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => {
      order = { column, down: order.column === column ? !order.down : column > 0 };
      fill();
    });
    cell.append(button);
    heading.append(cell);
  });
  heading.append(element("th"));
  function has(utterance) {
    if (!wanted || utterance.key.toLowerCase().includes(wanted)) return true;
    return [...utterance.before.pairs, ...utterance.after.pairs].some((pair) => pair.some((word) => word !== null && word.toLowerCase().includes(wanted)));
  }
  function fill() {
    [...heading.cells].forEach((cell, column) => {
      if (column === order.column) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const value = columns[order.column][1], sign = order.down ? -1 : 1;
    const chosen = utterances.filter(has).sort((one, other) => {
      const [a, b] = [value(one) ?? -1, value(other) ?? -1];
      return sign * (typeof a === "string" ? (a < b ? -1 : a > b ? 1 : 0) : a - b);
    });
    body.replaceChildren();
    for (const utterance of chosen.slice(0, limit)) {
      const row = body.insertRow();
      const key = element("button", "key", utterance.key);
      key.type = "button";
      key.addEventListener("click", () => {
        if (row.nextElementSibling?.classList.contains("detail")) return row.nextElementSibling.remove();
        const detail = element("tr", "detail"), cell = detail.insertCell();
        cell.colSpan = columns.length + 1;
        cell.append(compared(utterance));
        row.after(detail);
      });
      row.insertCell().append(key);
      columns.slice(1).forEach(([, value], place) => {
        const shown = value(utterance), cell = row.insertCell();
        cell.className = `number ${place === 3 ? kind(shown) : ""}`;
        cell.textContent = shown === null ? "–" : place === 3 ? signed(shown) : place > 5 ? shown.toFixed(2) : String(shown);
      });
      const cell = row.insertCell();
      cell.className = "number";
      cell.append(links(utterance));
    }
    all.querySelector(".count").textContent = `${chosen.length.toLocaleString("en")} of ${utterances.length.toLocaleString("en")} utterances`;
    more.hidden = chosen.length <= limit;
  }
  more.addEventListener("click", () => { limit += 5 * PAGE; fill(); });
  all.querySelector("input").addEventListener("input", (event) => {
    wanted = event.target.value.trim().toLowerCase();
    limit = PAGE;
    fill();
  });
  fill();

  // ---- Lattices, which are shown when the user follows a link to them on this page.
  const dialog = document.querySelector("dialog");
  let viewer = null;
  function open() {
    const [, side, key] = /^#(before|after)\/(.*)$/.exec(location.hash) || [];
    const pair = key === undefined ? undefined : lattices[decodeURIComponent(key)];
    if (viewer) viewer.destroy();
    viewer = window.ninja = null;
    if (!pair) return dialog.close();
    const lattice = pair[side === "before" ? 0 : 1];
    dialog.querySelector("h2").textContent = decodeURIComponent(key);
    ["before", "after"].forEach((name, number) => {
      const button = dialog.querySelector(`[name="${name}"]`);
      button.setAttribute("aria-pressed", name === side);
      button.disabled = !pair[number];
    });
    if (!dialog.open) dialog.showModal();
    const place = dialog.querySelector(".place");
    place.replaceChildren(document.getElementById("viewer").content.cloneNode(true));
    if (lattice) viewer = window.ninja = ninjaViewer(place.querySelector(".viewer"), lattice);
  }
  for (const side of ["before", "after"]) {
    dialog.querySelector(`[name="${side}"]`).addEventListener("click", () => {
      location.hash = location.hash.replace(/^#(before|after)/, `#${side}`);
    });
  }
  dialog.querySelector('[name="close"]').addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    if (location.hash) history.pushState(null, "", location.pathname + location.search);
    if (viewer) viewer.destroy();
    viewer = window.ninja = null;
  });
  window.addEventListener("hashchange", open);
  open();
})();
