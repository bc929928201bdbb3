"use strict";
// Values under the pointer or finger, written below the map. Without script the same text is the title of each cell and mark.
for (const map of document.querySelectorAll("svg.plane")) {
  const told = map.closest("figure").querySelector("output");
  let chosen = null;
  const choose = (event) => {
    const cell = event.target.closest(".cells rect, circle.mark");
    if (!cell || cell === chosen) return;
    if (chosen) chosen.classList.remove("chosen");
    chosen = cell;
    chosen.classList.add("chosen");
    told.textContent = cell.querySelector("title").textContent;
  };
  map.addEventListener("pointermove", choose);
  map.addEventListener("pointerdown", choose);
}
