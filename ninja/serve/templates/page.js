"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const unsure = 0.9; // words with a smaller confidence have a dashed line
  let file = null; // a dropped or selected file, which replaces the text
  let answer = null;
  let first = []; // words before rescoring, if the source is an n-best list
  let chosen = []; // the words as changed by the user

  for (const name of JSON.parse(at("server-lists").textContent).lists) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.value = name;
    label.append(box, ` ${name} `);
    at("lists").append(label);
    at("lists").hidden = false;
  }

  function take(newFile) {
    file = newFile;
    at("name").textContent = file ? `${file.name}, ${file.size} bytes` : "";
    if (file) at("source").value = "";
  }
  at("file").addEventListener("change", () => take(at("file").files[0] || null));
  at("source").addEventListener("input", () => take(null));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    at("source").addEventListener(kind, (event) => {
      event.preventDefault();
      at("source").classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
    });
  }

  function base64(bytes) {
    let text = "";
    for (let begin = 0; begin < bytes.length; begin += 32768) {
      text += String.fromCharCode(...bytes.subarray(begin, begin + 32768));
    }
    return btoa(text);
  }

  async function request() {
    const phrases = at("names").value.split("\n").map((line) => line.trim()).filter(Boolean);
    const lists = [...at("lists").querySelectorAll("input:checked")].map((box) => box.value);
    const options = { n: Number(at("count").value) || 5 };
    if (phrases.length) options.entities = phrases;
    if (lists.length) options.lists = lists;
    first = [];
    if (file) {
      return { ...options, lattice_base64: base64(new Uint8Array(await file.arrayBuffer())) };
    }
    const text = at("source").value;
    try {
      const parsed = JSON.parse(text);
      const hypotheses = Array.isArray(parsed) ? parsed : parsed.nbest;
      if (Array.isArray(hypotheses)) {
        const score = (item) => item.score ?? (item.am_score ?? 0) + (item.lm_score ?? 0);
        const best = [...hypotheses].sort((a, b) => score(b) - score(a))[0];
        first = String(best?.text ?? "").split(/\s+/).filter(Boolean);
        return { ...options, ...(parsed.key ? { key: String(parsed.key) } : {}), nbest: hypotheses };
      }
    } catch {
      // the text is not JSON, but a lattice in a text format
    }
    return { ...options, lattice: text };
  }

  // Mark words that are not in the longest common subsequence with the words before rescoring.
  function changes(before, after) {
    const length = before.map(() => new Array(after.length + 1).fill(0));
    length.push(new Array(after.length + 1).fill(0));
    for (let i = before.length - 1; i >= 0; i--) {
      for (let j = after.length - 1; j >= 0; j--) {
        length[i][j] = before[i] === after[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
      }
    }
    const marks = [];
    for (let i = 0, j = 0; j < after.length; ) {
      if (i < before.length && before[i] === after[j]) {
        marks.push(false);
        i++;
        j++;
      } else if (i < before.length && length[i + 1][j] > length[i][j + 1]) {
        i++;
      } else {
        marks.push(before.length > 0);
        j++;
      }
    }
    return marks;
  }

  function show() {
    const words = answer.nbest[0].words;
    const marks = changes(first, words.map((word) => word.word));
    at("key").textContent = answer.key;
    at("incomplete").hidden = answer.complete;
    at("choices").hidden = true;
    at("words").replaceChildren(
      ...words.map((word, place) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = chosen[place] || "∅";
        button.setAttribute("aria-expanded", "false");
        const time = word.start === undefined ? "" : `, ${word.start.toFixed(2)}–${word.end.toFixed(2)} s`;
        button.title = word.confidence === undefined ? "" : `confidence ${word.confidence.toFixed(2)}${time}`;
        button.classList.toggle("unsure", word.confidence !== undefined && word.confidence < unsure);
        button.classList.toggle("changed", marks[place] || chosen[place] !== word.word);
        button.addEventListener("click", () => choose(place, button));
        return button;
      }),
    );
    at("nbest").replaceChildren(
      ...answer.nbest.map((hypothesis) => {
        const item = document.createElement("li");
        const score = document.createElement("small");
        score.textContent = ` ${hypothesis.score.toFixed(2)}`;
        item.append(hypothesis.text, score);
        return item;
      }),
    );
    at("result").hidden = false;
  }

  function choose(place, button) {
    for (const other of at("words").children) other.setAttribute("aria-expanded", String(other === button));
    at("choices").replaceChildren(
      ...(answer.alternatives[place] || []).map((alternative) => {
        const choice = document.createElement("button");
        choice.type = "button";
        choice.textContent = `${alternative.word || "∅"} ${(100 * alternative.confidence).toFixed(1)}%`;
        choice.addEventListener("click", () => {
          chosen[place] = alternative.word;
          show();
        });
        return choice;
      }),
    );
    at("choices").hidden = false;
  }

  at("download").addEventListener("click", () => {
    const edited = { ...answer, text: chosen.filter(Boolean).join(" ") };
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(edited, null, 1)], { type: "application/json" }));
    link.download = `${answer.key.replace(/[^\w.-]+/g, "_") || "answer"}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  });

  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    at("problem").hidden = true;
    at("send").disabled = true;
    try {
      const headers = { "Content-Type": "application/json" };
      if (at("token").value) headers.Authorization = `Bearer ${at("token").value}`;
      const response = await fetch("v1/rescore", { method: "POST", headers, body: JSON.stringify(await request()) });
      const content = await response.json();
      if (!response.ok) throw new Error(content.detail);
      answer = content;
      chosen = answer.nbest[0].words.map((word) => word.word);
      show();
    } catch (error) {
      at("result").hidden = true;
      at("problem").textContent = error.message;
      at("problem").hidden = false;
    } finally {
      at("send").disabled = false;
    }
  });
})();
