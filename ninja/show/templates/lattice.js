"use strict";
window.ninja = ninjaViewer(document.querySelector(".viewer"), JSON.parse(document.getElementById("lattice").textContent));
