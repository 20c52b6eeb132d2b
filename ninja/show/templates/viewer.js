"use strict";
// Draws a lattice in a `.viewer` with Cytoscape, at the positions that Python computed. Returns an interface for pages
// and tests.
function ninjaViewer(root, lattice) {
  const LANE = 25, BEND = 16, BEST = 1, ORACLE = 2, CLOSEST = 0.85;
  const LETTERS = 12, SMALLEST = 11;  // label size in pixels; minimum size of best-path labels on the screen, in pixels
  const part = (name) => root.querySelector(name);
  const control = (name) => root.querySelector(`[name="${name}"]`);
  const { arc: arcs, state: states, words } = lattice;
  const numRows = arcs.row.length ? arcs.row[arcs.row.length - 1] + 1 : 0;
  const placeOf = new Map(arcs.id.map((id, place) => [id, place]));
  const rowEnd = new Array(numRows).fill(0);  // cumulative number of arcs in the detours
  arcs.row.forEach((row, place) => { rowEnd[row] = place + 1; });
  const stateRow = new Array(states.id.length).fill(0);  // first detour that contains each state
  for (let place = arcs.row.length - 1; place >= 0; place--) {
    stateRow[arcs.src[place]] = stateRow[arcs.dst[place]] = arcs.row[place];
  }
  const numMarked = arcs.marks.reduce((most, marks, place) => (marks ? Math.max(most, arcs.row[place] + 1) : most), 1);

  // ---- Colours are taken from the page, which has a light and a dark mode.
  const palette = () => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const channels = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
    const [low, high] = [channels(colour("low")), channels(colour("high"))];
    const names = ["ink", "soft", "line", "best", "oracle", "found", "halo", "accent"];
    return {
      ...Object.fromEntries(names.map((name) => [name, colour(name)])),
      ramp: (share) => `rgb(${low.map((each, at) => Math.round(each + (high[at] - each) * share)).join(",")})`,
    };
  };
  let colours = palette();
  const share = (posterior) => Math.pow(Math.min(1, Math.max(0, posterior)), 0.4);
  const font = getComputedStyle(root).fontFamily;
  const style = () => [
    { selector: "node", style: { width: 6, height: 6, "background-color": colours.soft, "overlay-opacity": 0, "z-index": 2000, "z-index-compare": "manual" } },
    { selector: "node.final", style: { width: 10, height: 10, "background-color": colours.halo, "border-width": 2, "border-color": colours.soft } },
    { selector: "node.start", style: { width: 10, height: 10, "background-color": colours.ink } },
    { selector: "edge", style: {
      "curve-style": "straight", "source-endpoint": "inside-to-node", "target-endpoint": "inside-to-node", width: "data(width)", "line-color": (edge) => colours.ramp(edge.data("share")),
      label: "data(label)", color: colours.ink, "font-size": 12, "font-family": font, "text-margin-y": "data(margin)",
      "text-wrap": "ellipsis", "text-max-width": "data(room)", "min-zoomed-font-size": 7, "text-events": "yes",
      "text-outline-color": colours.halo, "text-outline-width": 2, "text-outline-opacity": 0.85,
      "overlay-opacity": 0, "z-index": "data(level)", "z-index-compare": "manual" } },
    { selector: "edge.bent", style: { "curve-style": "unbundled-bezier", "edge-distances": "node-position",
      "control-point-distances": "data(distances)", "control-point-weights": "data(weights)" } },
    { selector: "edge.epsilon", style: { "line-style": "dashed", "line-dash-pattern": [3, 3] } },
    { selector: "edge.on-oracle", style: { "underlay-color": colours.oracle, "underlay-padding": "data(under)", "underlay-opacity": 0.5 } },
    { selector: "edge.on-best", style: {
      "line-color": colours.best, width: "data(broad)", "z-index": 1500, "font-size": "data(size)",
      "text-margin-y": "data(height)", "text-max-width": "data(reach)", "text-outline-width": "data(rim)" } },
    { selector: "edge.found", style: { color: colours.found, "font-weight": "bold", "line-color": colours.found, "z-index": 1600 } },
    { selector: "edge.chosen", style: { "overlay-color": colours.accent, "overlay-padding": 6, "overlay-opacity": 0.3, "font-weight": "bold", "z-index": 1700 } },
    { selector: "node.chosen", style: { "overlay-color": colours.accent, "overlay-padding": 5, "overlay-opacity": 0.4 } },
    { selector: ".hidden", style: { display: "none" } },
  ];

  // ---- Elements.
  const at = (state) => ({ x: states.x[state], y: states.lane[state] * LANE });
  const node = (state) => ({
    group: "nodes", data: { id: `s${states.id[state]}`, state }, position: at(state),
    classes: states.id[state] === 0 ? "start" : states.finalGraph[state] === null ? "" : "final",
  });
  const alone = (place) => {  // whether the arc is the only one in its detour, so its label has free space in the lane
    const row = arcs.row[place];
    return row > 0 && rowEnd[row] - rowEnd[row - 1] === 1;
  };
  const edge = (place) => {
    const source = at(arcs.src[place]), target = at(arcs.dst[place]), y = arcs.lane[place] * LANE;
    const dx = target.x - source.x, dy = target.y - source.y, length = Math.hypot(dx, dy);
    const data = {
      id: `a${arcs.id[place]}`, place, source: `s${states.id[arcs.src[place]]}`, target: `s${states.id[arcs.dst[place]]}`,
      label: words[arcs.word[place]], share: share(arcs.posterior[place]), width: 1 + 4 * share(arcs.posterior[place]),
      margin: -8 - 2 * share(arcs.posterior[place]), room: alone(place) ? 1e4 : dx * 0.96, level: Math.round(1000 * arcs.posterior[place]),
    };
    if (arcs.marks[place]) Object.assign(data, { size: LETTERS, broad: Math.max(data.width, 3), under: 6, rim: 2, height: data.margin, reach: data.room });
    const bent = source.y !== y || target.y !== y;
    if (bent) {  // Cytoscape defines a curve by distances from the straight line; it passes through two points in the lane
      const bend = Math.min(BEND, dx * 0.4);
      const points = [source.x + bend, target.x - bend].map((x) => [x - source.x, y - source.y]);
      data.weights = points.map(([px, py]) => (px * dx + py * dy) / (length * length));
      data.distances = points.map(([px, py]) => (py * dx - px * dy) / length);
    }
    return { group: "edges", data, classes: `${bent ? "bent" : ""} ${data.label ? "" : "epsilon"}` };
  };

  const cy = cytoscape({
    container: part(".graph"), style: style(), layout: { name: "preset" }, elements: [],
    minZoom: 0.02, maxZoom: 6, boxSelectionEnabled: false, autoungrabify: true, autounselectify: true,
    textureOnViewport: false, hideEdgesOnViewport: false, pixelRatio: "auto",
  });
  const element = (arc) => cy.getElementById(`a${arc}`);

  // ---- When the user zooms out, marked paths keep their widths on the screen, and the words of the best path keep their
  // size; they are placed side by side, or in rows above and below the path.
  const bestPlaces = arcs.id.map((_, place) => place).filter((place) => arcs.marks[place] & BEST)
    .sort((one, other) => states.x[arcs.src[one]] - states.x[arcs.src[other]]);
  const ruler = document.createElement("canvas").getContext("2d");
  let sized = null;
  function resize() {
    const zoom = cy.zoom(), far = LETTERS * zoom < SMALLEST, size = far ? SMALLEST / zoom : LETTERS;
    if (zoom === sized) return;
    sized = zoom;
    ruler.font = `${SMALLEST}px ${font}`;
    const ends = [];  // right end of the last word in each row, in pixels
    const placed = new Map();
    if (far) for (const place of bestPlaces) {
      const middle = (states.x[arcs.src[place]] + states.x[arcs.dst[place]]) / 2 * zoom;
      const half = ruler.measureText(words[arcs.word[place]]).width / 2 + 3;
      const free = ends.findIndex((end) => end <= middle - half), row = free < 0 ? ends.length : free;
      ends[row] = middle + half;
      placed.set(place, (row % 2 ? 1 : -1) * (10 + 13 * (row >> 1)) / zoom);
    }
    cy.batch(() => cy.edges().forEach((each) => {
      const data = each.data(), at = data.place;
      if (!arcs.marks[at]) return;
      each.data({
        size, broad: Math.max(data.width, 3, 3 / zoom), under: Math.max(6, 4 / zoom), rim: far ? 2 / zoom : 2,
        height: placed.get(at) ?? data.margin, reach: far ? 1e4 : data.room,
      });
    }));
  }

  // ---- Number of arcs that are shown.
  let shown = 0, built = 0;
  function show(rows) {
    const wanted = Math.min(numRows, Math.max(numMarked, Math.round(rows)));
    cy.batch(() => {
      if (wanted > built || !cy.nodes().length) {
        const from = built ? rowEnd[built - 1] : 0, to = wanted ? rowEnd[wanted - 1] : 0, fresh = [];
        states.id.forEach((_, state) => {
          if (stateRow[state] < Math.max(wanted, 1) && (stateRow[state] >= built || !built)) fresh.push(node(state));
        });
        for (let place = from; place < to; place++) fresh.push(edge(place));
        cy.add(fresh);
        built = wanted;
      }
      const [low, high] = [Math.min(shown, wanted), Math.max(shown, wanted)];
      cy.elements().forEach((each) => {
        const row = each.isNode() ? stateRow[each.data("state")] : arcs.row[each.data("place")];
        if (row >= low && row < high) each.toggleClass("hidden", row >= wanted);
      });
    });
    shown = wanted;
    mark();
    control("shown").value = arcsShown();
    part(".shown").textContent = `${num(arcsShown())} of ${num(arcs.id.length)}`;
    tell();
  }
  const num = (value) => value.toLocaleString("en");
  const arcsShown = () => (shown ? rowEnd[shown - 1] : 0);
  function slide(count) {  // show whole detours: at least `count` arcs if the number grows, at most `count` if it shrinks
    if (count === arcsShown()) return;
    let rows = numMarked;
    while (rows < numRows && (count > arcsShown() ? rowEnd[rows - 1] < count : rowEnd[rows] <= count)) rows++;
    show(rows);
  }

  function tell() {
    const hidden = arcs.id.length - arcsShown();
    const notices = [];
    if (hidden) {
      const first = arcs.excess.slice(rowEnd[shown - 1]).reduce((least, each) => Math.min(least, each), Infinity);
      const most = arcs.posterior.slice(rowEnd[shown - 1]).reduce((most, each) => Math.max(most, each), 0);
      notices.push(`${num(hidden)} less likely arcs are hidden. Their paths cost at least ${first.toPrecision(3)} more than the best path, and their posteriors are at most ${most.toPrecision(2)}. Move the slider to show these arcs.`);
    }
    if (lattice.leftOut) notices.push(lattice.leftOut);
    if (lattice.unit === "step") notices.push("This lattice has no consistent times, so states are placed by their number of arcs from the start.");
    if (!notices.length) notices.push(`All ${num(lattice.counts.arcs)} arcs and ${num(lattice.counts.states)} states are shown.`);
    part(".notice").textContent = notices.join(" ");
  }

  function mark() {
    const [best, oracle] = [control("best").checked, control("oracle").checked];
    cy.batch(() => cy.edges().forEach((each) => {
      const marks = arcs.marks[each.data("place")];
      if (!marks) return;
      each.toggleClass("on-best", best && (marks & BEST) !== 0);
      each.toggleClass("on-oracle", oracle && (marks & ORACLE) !== 0);
    }));
  }

  // ---- Figures.
  function time(frames) {
    if (lattice.unit === "step") return `step ${frames}`;
    if (lattice.frameShift === null) return `frame ${frames}`;
    return `${(frames * lattice.frameShift).toFixed(2)} s (frame ${frames})`;
  }
  function figures(arc) {
    const place = placeOf.get(arc);
    if (place === undefined) return null;
    const [acousticScale, lmScale, penalty] = lattice.scales;
    const [src, dst] = [arcs.src[place], arcs.dst[place]];
    const word = words[arcs.word[place]], marks = arcs.marks[place];
    return {
      arc, word, src: states.id[src], dst: states.id[dst], begin: states.time[src], end: states.time[dst],
      graph: arcs.graph[place], acoustic: arcs.acoustic[place],
      cost: acousticScale * arcs.acoustic[place] + lmScale * arcs.graph[place] + (word ? penalty : 0),
      posterior: arcs.posterior[place], excess: arcs.excess[place],
      gain: arcs.gain ? arcs.gain[place] : null, copied: arcs.copied ? arcs.copied[place] : null,
      best: (marks & BEST) !== 0, oracle: (marks & ORACLE) !== 0,
    };
  }
  function fill(title, rows) {
    const heading = document.createElement("h2"), table = document.createElement("table");
    heading.textContent = title;
    for (const [name, text, value] of rows) {
      const row = table.insertRow();
      row.insertCell().textContent = text;
      const cell = row.insertCell();
      cell.textContent = value;
      cell.dataset.name = name;
    }
    part(".panel").replaceChildren(heading, table);
  }
  const cost = (value) => String(+value.toPrecision(7));
  const scale = (value) => String(+value.toPrecision(4));
  let chosen = null;
  function choose(one) {
    cy.elements(".chosen").removeClass("chosen");
    if (one) one.addClass("chosen");
  }
  function select(arc) {
    const found = figures(arc);
    if (!found) return null;
    chosen = arc;
    if (arcs.row[placeOf.get(arc)] >= shown) show(arcs.row[placeOf.get(arc)] + 1);
    choose(element(arc));
    const on = [found.best && "best", found.oracle && "oracle"].filter(Boolean).join(", ");
    fill(found.word || "ε", [
      ["begin", "begins", time(found.begin)], ["end", "ends", time(found.end)],
      ["posterior", "posterior", String(found.posterior)],
      ["graph", "graph cost", cost(found.graph)], ["acoustic", "acoustic cost", cost(found.acoustic)],
      ["cost", "weighted cost", cost(found.cost)], ["excess", "above best path", cost(found.excess)],
      ...(found.gain === null ? [] : [
        ["gain", "context gain (nats)", cost(found.gain)], ["copied", "phrase probability", String(found.copied)],
      ]),
      ["paths", "on paths", on || "–"], ["arc", "arc", String(found.arc)], ["states", "states", `${found.src} → ${found.dst}`],
    ]);
    return found;
  }
  function selectState(state) {
    chosen = null;
    choose(cy.getElementById(`s${states.id[state]}`));
    const rows = [["time", "time", time(states.time[state])]];
    if (states.finalGraph[state] !== null) {
      rows.push(["finalGraph", "final graph cost", cost(states.finalGraph[state])]);
      rows.push(["finalAcoustic", "final acoustic cost", cost(states.finalAcoustic[state])]);
    }
    fill(`state ${states.id[state]}`, rows);
  }
  function overview() {
    chosen = null;
    choose(null);
    const [acousticScale, lmScale, penalty] = lattice.scales;
    fill(lattice.key, [
      ["states", "states", num(lattice.counts.states)], ["arcs", "arcs", num(lattice.counts.arcs)],
      ["bestCost", "best path's cost", cost(lattice.bestCost)], ["acousticScale", "acoustic scale", scale(acousticScale)],
      ["lmScale", "LM scale", scale(lmScale)], ["wordPenalty", "word penalty", scale(penalty)],
    ]);
    const hint = document.createElement("p");
    hint.className = "soft";
    hint.textContent = "Click an arc to see its costs. Drag to move, scroll to zoom. Costs are natural-log costs: lower is better.";
    part(".panel").append(hint);
  }

  // ---- Views.
  const box = () => cy.elements().not(".hidden").boundingBox({ includeOverlays: false, includeUnderlays: false, includeLabels: false });
  function fit() {  // show the whole graph or, if it is much taller than wide, its full width
    const area = box(), zoom = Math.max(Math.min((cy.width() - 64) / area.w, (cy.height() - 96) / area.h), Math.min(0.35, (cy.width() - 64) / area.w));
    const top = area.h * zoom + 96 <= cy.height() ? (cy.height() - area.h * zoom) / 2 - area.y1 * zoom : cy.height() / 2;
    cy.viewport({ zoom, pan: { x: (cy.width() - area.w * zoom) / 2 - area.x1 * zoom, y: top } });
  }
  function begin() {  // show the left end in a readable size, with the best path in the middle
    const view = part(".graph").getBoundingClientRect(), area = box();
    const zoom = Math.min(1.4, Math.max((view.width - 48) / area.w, CLOSEST));
    const whole = area.h * zoom + 24 <= view.height;
    const left = area.w * zoom + 48 <= view.width ? (view.width - area.w * zoom) / 2 : 24;
    const top = whole ? (view.height - area.h * zoom) / 2 - area.y1 * zoom : view.height / 2;
    cy.viewport({ zoom, pan: { x: left - area.x1 * zoom, y: top } });
  }
  function centre(arc) {
    const middle = element(arc).midpoint(), zoom = Math.max(cy.zoom(), 0.9);
    cy.viewport({ zoom, pan: { x: cy.width() / 2 - middle.x * zoom, y: cy.height() / 2 - middle.y * zoom } });
  }
  function zoomBy(factor) {
    cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  }

  // ---- The time axis.
  let asked = false;
  function axis() {
    asked = false;
    const canvas = part(".axis"), view = canvas.getBoundingClientRect(), dense = window.devicePixelRatio || 1;
    canvas.width = view.width * dense;
    canvas.height = view.height * dense;
    if (lattice.unit === "step" || !view.width) return;
    const pen = canvas.getContext("2d"), unit = lattice.frameShift === null ? 1 : 1 / lattice.frameShift;
    const wide = lattice.frameWidth * unit * cy.zoom(), pan = cy.pan().x;  // pixels per second or, if the frame shift is unknown, per frame
    const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    const step = steps.find((each) => each * wide >= 64 && (lattice.frameShift !== null || each >= 1)) || 10000;
    pen.scale(dense, dense);
    pen.font = `11px ${font}`;
    pen.fillStyle = pen.strokeStyle = colours.soft;
    pen.textAlign = "center";
    const last = Math.max(...states.time) / unit;
    for (let tick = Math.max(0, Math.ceil(-pan / wide / step)); tick * step <= last + step; tick++) {
      const x = tick * step * wide + pan;
      if (x > view.width) break;
      pen.fillRect(x, 0, 1, 5);
      pen.fillText(`${+(tick * step).toFixed(2)}${lattice.frameShift === null ? "" : " s"}`, x, 18);
    }
  }
  const [firstX, lastX] = [Math.min(...states.x), Math.max(...states.x)];
  function beyond() {  // mark the sides on which the graph extends beyond the view
    const zoom = cy.zoom(), pan = cy.pan().x;
    for (const [side, rest] of [["left", -(firstX * zoom + pan)], ["right", lastX * zoom + pan - cy.width()]]) {
      const frames = rest / zoom / (lattice.frameWidth ?? 1);
      const much = lattice.unit === "step" ? "more" : lattice.frameShift === null ? `${num(Math.ceil(frames))} frames more` : `${(frames * lattice.frameShift).toFixed(1)} s more`;
      part(`.beyond.${side}`).hidden = rest < 6;
      control(side).textContent = side === "left" ? `‹ ${much}` : `${much} ›`;
    }
  }
  function turn(side) {  // scroll to the next part of the lattice
    const rest = side === "left" ? -(firstX * cy.zoom() + cy.pan().x) : lastX * cy.zoom() + cy.pan().x - cy.width();
    const pixels = Math.min(0.8 * cy.width(), rest + 24);
    cy.panBy({ x: side === "left" ? pixels : -pixels, y: 0 });
  }
  const look = () => { resize(); axis(); beyond(); };
  const soon = () => { if (!asked) { asked = true; requestAnimationFrame(look); } };

  // ---- Search.
  let hits = [], hit = -1;
  function search(text) {
    const wanted = text.trim().toLowerCase();
    const matching = new Set();
    if (wanted) words.forEach((word, number) => { if (word.toLowerCase().includes(wanted)) matching.add(number); });
    hits = arcs.id.filter((_, place) => matching.has(arcs.word[place]));
    const offBest = (arc) => ((arcs.marks[placeOf.get(arc)] & BEST) === 0 ? 1 : 0);  // arcs of the best path come first
    const start = (arc) => states.time[arcs.src[placeOf.get(arc)]];
    hits.sort((one, other) => offBest(one) - offBest(other) || start(one) - start(other) || one - other);
    hit = -1;
    cy.batch(() => cy.edges().forEach((each) => { each.toggleClass("found", matching.has(arcs.word[each.data("place")])); }));
    part(".hits").textContent = !wanted ? "" : hits.length ? `${num(hits.length)} ${hits.length > 1 ? "arcs" : "arc"}, Enter` : "none";
    return hits;
  }
  function next() {
    if (!hits.length) return;
    hit = (hit + 1) % hits.length;
    select(hits[hit]);
    element(hits[hit]).addClass("found");
    centre(hits[hit]);
    part(".hits").textContent = `${num(hit + 1)} of ${num(hits.length)}`;
  }

  // ---- The text above the graph.
  function spoken() {
    const area = part(".spoken"), rows = [];
    const plain = (list) => {
      const line = document.createElement("div");
      line.textContent = list.join(" ") || "(no words)";
      return line;
    };
    const { pairs } = lattice;
    const errors = (list) => list.filter(([reference, hypothesis]) => reference !== hypothesis).length;
    const total = pairs && pairs.best.filter(([reference]) => reference !== null).length;
    const label = (name, list) => (list ? `${name}, ${errors(list)} of ${total} wrong` : name);
    if (pairs) rows.push(["reference", plain(pairs.best.map(([reference]) => reference).filter((word) => word !== null))]);
    rows.push([label("best path", pairs && pairs.best), pairs ? ninjaPairs(pairs.best) : plain(lattice.best)]);
    if (pairs) rows.push([label("oracle path", pairs.oracle), ninjaPairs(pairs.oracle)]);
    area.replaceChildren();
    for (const [name, line] of rows) {
      const title = document.createElement("div");
      title.className = "name";
      title.textContent = name;
      area.append(title, line);
    }
  }

  // ---- Events.
  const tip = part(".tip");
  cy.on("tap", "edge", (event) => select(arcs.id[event.target.data("place")]));
  cy.on("tap", "node", (event) => selectState(event.target.data("state")));
  cy.on("tap", (event) => { if (event.target === cy) overview(); });
  cy.on("mouseover", "edge", (event) => {
    const place = event.target.data("place"), { x, y } = event.renderedPosition;
    tip.textContent = `${words[arcs.word[place]] || "ε"}   ${arcs.posterior[place].toPrecision(3)}`;
    tip.hidden = false;
    tip.style.left = `${Math.min(x + 12, cy.width() - tip.offsetWidth - 4)}px`;
    tip.style.top = `${Math.max(4, y - 30)}px`;
  });
  cy.on("mouseout", "edge", () => { tip.hidden = true; });
  part(".graph").addEventListener("mouseleave", () => { tip.hidden = true; });
  cy.on("viewport resize", () => { tip.hidden = true; soon(); });
  control("shown").min = numRows ? rowEnd[numMarked - 1] : 0;
  control("shown").max = arcs.id.length;
  let waiting = false;
  control("shown").addEventListener("input", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; slide(+control("shown").value); });
  });
  control("best").addEventListener("change", mark);
  control("oracle").addEventListener("change", mark);
  control("search").addEventListener("input", (event) => search(event.target.value));
  control("search").addEventListener("keydown", (event) => { if (event.key === "Enter") next(); });
  control("fit").addEventListener("click", fit);
  for (const side of ["left", "right"]) control(side).addEventListener("click", () => turn(side));
  control("in").addEventListener("click", () => zoomBy(1.3));
  control("out").addEventListener("click", () => zoomBy(1 / 1.3));
  part(".graph").addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (moves[event.key]) cy.panBy({ x: moves[event.key][0], y: moves[event.key][1] });
    else if (event.key === "+") zoomBy(1.3);
    else if (event.key === "-") zoomBy(1 / 1.3);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => { colours = palette(); cy.style(style()); look(); };
  dark.addEventListener("change", repaint);

  if (lattice.oracle) {
    part(".for-oracle").hidden = false;
    control("oracle").checked = true;
  }
  show(lattice.shown);
  spoken();
  overview();
  cy.resize();  // the texts above the graph have reduced its height
  begin();
  look();

  return {
    cy, figures, select, show, search, next, fit,
    selected: () => chosen,
    shown: arcsShown,
    total: () => arcs.id.length,
    toggle(name, on) { control(name).checked = on; mark(); },
    marked: (name) => cy.edges(`.on-${name}`).map((each) => arcs.id[each.data("place")]),
    position(arc) {  // return the middle of an arc in window coordinates
      const middle = element(arc).renderedMidpoint(), view = part(".graph").getBoundingClientRect();
      return { x: view.left + middle.x, y: view.top + middle.y };
    },
    destroy() { dark.removeEventListener("change", repaint); cy.destroy(); },
  };
}
