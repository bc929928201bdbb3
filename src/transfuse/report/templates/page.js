"use strict";
// What a page does beyond what it shows without script: values under the pointer, a slider, pictures saved as files.
document.documentElement.classList.add("scripted");

// Values under the pointer or finger, written below the map. Without script the same text is the title of each cell and mark.
for (const map of document.querySelectorAll("svg.plane")) {
  const told = map.closest(".picture").querySelector(".pointed");
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

// The slider stands at networks that were evaluated; on the move, points glide along the lines between them.
for (const figure of document.querySelectorAll(".travel")) {
  const slider = figure.querySelector(".slider input");
  const moving = figure.querySelector(".loop input");
  const last = Number(slider.max);
  const travellers = [...figure.querySelectorAll(".traveller")].map((element) =>
    ({ element, steps: element.dataset.steps.split(" ").map((step) => step.split(",").map(Number)) }));
  const texts = [...figure.querySelectorAll(".told [data-texts]")].map((element) =>
    ({ element, texts: element.dataset.texts.split("|") }));
  let shown = null;
  const show = (place) => {
    const before = Math.min(Math.floor(place), last - 1);
    const share = place - before;
    for (const { element, steps } of travellers) {
      const [x, y] = [0, 1].map((axis) => steps[before][axis] * (1 - share) + steps[before + 1][axis] * share);
      element.setAttribute("transform", `translate(${x} ${y})`);
    }
    const nearest = Math.round(place);
    if (nearest === shown) return;
    shown = nearest;
    for (const { element, texts: all } of texts) element.textContent = all[nearest];
    slider.value = nearest;
    slider.setAttribute("aria-valuetext", figure.querySelector(".told").innerText.replace(/\s+/g, " ").trim());
  };
  let at = Number(slider.value);
  let direction = 1;
  let seen = true;
  let then = null;
  const glide = (now) => {
    if (!moving.checked) { then = null; return; }
    if (then !== null && seen) {
      at += direction * last * Math.min(now - then, 100) / 6000; // 6,000 ms from end to end, as in the style sheet
      if (at >= last || at <= 0) { direction = -direction; at = Math.min(Math.max(at, 0), last); }
      show(at);
    }
    then = now;
    requestAnimationFrame(glide);
  };
  slider.addEventListener("input", () => { moving.checked = false; at = Number(slider.value); show(at); });
  moving.addEventListener("change", () => requestAnimationFrame(glide));
  new IntersectionObserver((entries) => { seen = entries[entries.length - 1].isIntersecting; }).observe(figure);
  addEventListener("beforeprint", () => { moving.checked = false; at = Math.floor((last + 1) / 2); show(at); });
  figure.querySelector(".slider").hidden = false;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) moving.checked = false;
  show(at);
  requestAnimationFrame(glide);
}

// Pictures are saved in light colours, with the style that they need.
const alone = (drawing) => {
  const [width, height] = drawing.getAttribute("viewBox").split(" ").slice(2).map(Number);
  const copy = drawing.cloneNode(true);
  copy.setAttribute("viewBox", `-12 -12 ${width + 24} ${height + 24}`);
  copy.setAttribute("width", width + 24);
  copy.setAttribute("height", height + 24);
  const make = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const style = make("style");
  style.textContent = document.getElementById("charts").textContent;
  const ground = make("rect");
  for (const [name, value] of Object.entries({ x: -12, y: -12, width: width + 24, height: height + 24, fill: "#ffffff" })) {
    ground.setAttribute(name, value);
  }
  copy.prepend(style, ground);
  return { text: new XMLSerializer().serializeToString(copy), width: width + 24, height: height + 24 };
};
const offer = (content, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000); // ms: long after a browser has begun to save it
};
for (const button of document.querySelectorAll("button[data-save]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const { text, width, height } = alone(button.closest(".picture").querySelector("svg"));
    const name = `${button.dataset.name}.${button.dataset.save}`;
    if (button.dataset.save === "svg") { offer(new Blob([text], { type: "image/svg+xml" }), name); return; }
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [4 * width, 4 * height]; // about 1,600 pixels across: enough for a slide
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((content) => offer(content, name), "image/png");
  });
}
