"use strict";
// The page is complete without this file; it adds tooltips, toggles, copy and download.
const root = document.documentElement;
addEventListener("error", (event) => {
  root.dataset.errors = `${root.dataset.errors || ""}${event.message}; `;
});
root.classList.add("js");

const report = JSON.parse(document.getElementById("data").textContent);
const law = report.separation;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const pressed = (button) => button.getAttribute("aria-pressed") === "true";
const onClick = (id, action) => {
  const button = document.getElementById(id);
  if (button) button.addEventListener("click", () => action(button));
};
const written = (value) => Number(value.toPrecision(3)).toString().replace("-", "−");

// Light and dark: what the system prefers until the button is pressed.
const dark = () =>
  (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const nameTheme = () => {
  document.getElementById("theme").textContent = dark() ? "light" : "dark";
};
onClick("theme", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  nameTheme();
});
nameTheme();

// One tooltip for all charts; the first line is a name.
const tip = document.getElementById("tip");
function showTip(lines, x, y) {
  tip.replaceChildren(
    ...lines.map((line, index) => {
      const row = document.createElement(index ? "div" : "strong");
      row.textContent = line;
      return row;
    }),
  );
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(x - width / 2, root.clientWidth - width - 8));
  const above = y - height - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : y + 18}px`;
}
function hideTip() {
  tip.hidden = true;
  for (const point of all(".point.near")) point.classList.remove("near");
}
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});

// Points of the law: nearest to the pointer, or the focused one; arrows walk along the line.
const centre = (point) => {
  const box = point.querySelector(".mark, .cross").getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
};
function showPoint(point) {
  hideTip();
  point.classList.add("near");
  showTip(point.getAttribute("aria-label").split(",\n"), ...centre(point));
}
for (const chart of all("svg.law, svg.residuals")) {
  const points = all(".point", chart);
  const visible = () => points.filter((point) => point.getClientRects().length);
  points.slice(1).forEach((point) => point.setAttribute("tabindex", "-1"));
  chart.addEventListener("pointermove", (event) => {
    const distance = (point) => {
      const [x, y] = centre(point);
      return Math.hypot(x - event.clientX, y - event.clientY);
    };
    const nearest = visible().reduce((a, b) => (distance(b) < distance(a) ? b : a));
    if (distance(nearest) < 36) showPoint(nearest);
    else hideTip();
  });
  chart.addEventListener("pointerleave", hideTip);
  for (const point of points) {
    point.addEventListener("focus", () => showPoint(point));
    point.addEventListener("blur", hideTip);
    point.addEventListener("click", () => showPoint(point));
  }
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const reachable = visible();
    const next = reachable[reachable.indexOf(document.activeElement) + step];
    if (!step || !next) return;
    event.preventDefault();
    document.activeElement.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

for (const button of all("[data-show]")) {
  button.addEventListener("click", () => {
    document.getElementById("law").dataset.view = button.dataset.show;
    for (const each of all("[data-show]")) each.setAttribute("aria-pressed", String(each === button));
  });
}
onClick("control", (button) => {
  button.setAttribute("aria-pressed", String(!pressed(button)));
  document.getElementById("law").toggleAttribute("data-alone", !pressed(button));
});

// Classes: chips hide and highlight lines, the chart names the nearest, any other can be picked.
const classes = document.getElementById("classes");
const marksOf = (k) => all(`svg [data-class="${k}"]`, classes);
const highlight = (k) => {
  for (const mark of all("svg [data-class]", classes)) {
    mark.classList.toggle("dim", k !== null && mark.dataset.class !== String(k));
  }
};
for (const chip of classes ? all(".chip", classes) : []) {
  const k = chip.dataset.class;
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(!pressed(chip)));
    for (const mark of marksOf(k)) mark.classList.toggle("off", !pressed(chip));
  });
  for (const event of ["pointerenter", "focus"]) chip.addEventListener(event, () => highlight(k));
  for (const event of ["pointerleave", "blur"]) chip.addEventListener(event, () => highlight(null));
}
const place = (chart, index, value) => [
  Number(chart.dataset.x) + index * Number(chart.dataset.step),
  Number(chart.dataset.origin) + Math.log10(value) * Number(chart.dataset.decade),
];
const picker = document.getElementById("pick");
function drawPicked() {
  for (const chart of all("svg.classwise")) {
    let pen = "M";
    let path = "";
    law.classwise.forEach((row, index) => {
      const value = picker.value === "" ? null : row[Number(picker.value)];
      if (value > 0) path += pen + place(chart, index, value).map((at) => at.toFixed(1)).join(" ");
      pen = value > 0 ? "L" : "M";
    });
    chart.querySelector(".picked").setAttribute("d", path);
  }
}
if (picker) picker.addEventListener("change", drawPicked);

for (const chart of all("svg.classwise")) {
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const zoom = chart.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
    const last = law.classwise.length - 1;
    const nearest = Math.round((x - chart.dataset.x) / chart.dataset.step);
    const index = Math.max(0, Math.min(last, nearest));
    const drawn = all("path.class[data-class]:not(.off)", chart).map((line) => Number(line.dataset.class));
    if (picker && picker.value !== "") drawn.push(Number(picker.value));
    const away = (k) => Math.abs(place(chart, index, law.classwise[index][k])[1] - y);
    const known = drawn.filter((k) => law.classwise[index][k] > 0).sort((a, b) => away(a) - away(b));
    if (!known.length || away(known[0]) > 30) {
      highlight(null);
      hideTip();
      return;
    }
    const k = known[0];
    highlight(marksOf(k).length ? k : null);
    const [atX, atY] = place(chart, index, law.classwise[index][k]).map((at) => at / zoom);
    const lines = [law.class_names[k], `${index} ${law.stations[index]}`, `D = ${written(law.classwise[index][k])}`];
    showTip(lines, box.left + atX, box.top + atY);
  });
  chart.addEventListener("pointerleave", () => {
    highlight(null);
    hideTip();
  });
}

// Copy and download.
const said = document.getElementById("said");
onClick("copy", () => {
  const citation = document.getElementById("citation");
  const choose = () => {
    getSelection().selectAllChildren(citation);
    said.textContent = "selected; copy it with the keyboard";
  };
  if (!navigator.clipboard) return choose();
  navigator.clipboard.writeText(citation.textContent).then(() => (said.textContent = "copied"), choose);
});
onClick("download", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(report, null, 1)], { type: "application/json" }));
  link.download = "lawscope-report.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  said.textContent = "saved as lawscope-report.json";
});

root.dataset.ready = "true";
