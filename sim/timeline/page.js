"use strict";
// The picture is a list of groups of rows. A row has a height, a label, draw(g, y) and at(t, y), the text
// that describes a moment of it.
const data = JSON.parse(document.getElementById("data").textContent);
const LABELS = 176, TEXT = data.texts;
const JOB = ["gone", "pending", "running", "completed", "crashing", "failed"], NODE = ["down", "draining", "up"];
const LOAD = [["sent", "commits sent"], ["conflict", "conflicts"], ["unknown", "unknown results"], ["again", "other attempts"], ["faulted", "faults of requests and store operations"]];
const hues = [212, 28, 150, 330, 265, 60, 185, 0];
const $ = id => document.getElementById(id);
let from = 0, to = data.end, width = 0, colors = {};

// --- time

const x = t => LABELS + (t - from) / (to - from) * (width - LABELS);
const time = px => from + (px - LABELS) / (width - LABELS) * (to - from);
function clock(ms, step) {
  const s = Math.floor(ms / 1000), two = n => String(n).padStart(2, "0");
  let text = Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
  if (step < 1000) text += "." + String(Math.floor(ms % 1000)).padStart(3, "0");
  return text;
}
function lasted(ms) {
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60e3) return (ms / 1000).toFixed(1) + " s";
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min " + Math.round(ms % 60e3 / 1000) + " s";
  return Math.floor(ms / 3600e3) + " h " + Math.round(ms % 3600e3 / 60e3) + " min";
}
const steps = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 14400e3];
const tick = () => steps.find(s => s / (to - from) * (width - LABELS) >= 84) || steps.at(-1);

// --- drawing

function bar(g, color, a, b, y, h) {
  const l = Math.max(x(a), LABELS), r = Math.min(x(b), width);
  if (r < LABELS || l > width) return null;
  g.fillStyle = color;
  g.fillRect(l, y, Math.max(r - l, 1), h);
  return [l, r];
}
function inside(g, text, l, r, y, color) {
  if (r - l < 16 || g.measureText(text).width > r - l - 6) return;
  g.fillStyle = color;
  g.fillText(text, l + 3, y);
}
function fitted(g, text, w) {
  if (g.measureText(text).width <= w) return text;
  while (text && g.measureText(text + "…").width > w) text = text.slice(0, -1);
  return text + "…";
}
function label(g, text, y, color) {
  g.fillStyle = color || colors.fg;
  g.textAlign = "right";
  g.fillText(fitted(g, text, LABELS - 14), LABELS - 8, y);
  g.textAlign = "left";
}
const hue = node => !TEXT[node] ? colors.dim : `hsl(${hues[nodeIndex(node) % hues.length]} 70% ${colors.dark ? 62 : 42}%)`;
const nodeIndex = text => Math.max(0, data.nodes.findIndex(n => n.name === TEXT[text]));

// visible calls f with the entries of a flat list of changes that are in sight: at, until, state, node, text.
function visible(list, f) {
  for (let i = 0; i < list.length; i += 4) {
    const until = i + 4 < list.length ? list[i + 4] : data.end;
    if (until >= from && list[i] <= to) f(list[i], until, list[i + 1], list[i + 2], list[i + 3]);
  }
}
function entryAt(list, t) {
  let found = null;
  for (let i = 0; i < list.length && list[i] <= t; i += 4) {
    found = [list[i], i + 4 < list.length ? list[i + 4] : data.end, list[i + 1], list[i + 2], list[i + 3]];
  }
  return found;
}

// --- rows

// stack puts faults that overlap below each other.
function stack(list) {
  const ends = [], last = [];
  for (const f of list) {
    let row = ends.findIndex(end => end <= f.from);
    if (row < 0) row = ends.length;
    ends[row] = f.to + data.end / 400;
    f.row = row;
    if (last[row]) last[row].next = f.from;
    last[row] = f;
  }
  return ends.length;
}
const faults = [];
for (let i = 0; i < data.faults.length; i += 5) {
  const [a, b, name, whom, text] = data.faults.slice(i, i + 5);
  faults.push({ from: a, to: b, name: TEXT[name], whom: TEXT[whom], text: TEXT[text] });
}
faults.sort((a, b) => a.from - b.from);

function drawFaults(g, list, y) {
  for (const f of list) {
    const top = y + f.row * 14;
    if (f.to > f.from) {
      const at = bar(g, colors.fault, f.from, f.to, top, 12);
      if (at && at[1] - at[0] > g.measureText(f.name).width + 6) {
        inside(g, f.name, at[0], at[1], top + 6.5, colors.faulttext);
        continue;
      }
    } else if (f.from >= from && f.from <= to) {
      g.fillStyle = colors.mark;
      g.beginPath();
      g.moveTo(x(f.from), top);
      g.lineTo(x(f.from) + 4, top + 6);
      g.lineTo(x(f.from), top + 12);
      g.lineTo(x(f.from) - 4, top + 6);
      g.fill();
    }
    const right = x(Math.max(f.from, f.to)) + 5, room = (f.next === undefined ? width : x(f.next)) - right - 6;
    if (right > LABELS && room > g.measureText(f.name).width) {
      g.fillStyle = colors.dim;
      g.fillText(f.name, right, top + 6.5);
    }
  }
}
function faultsAt(list, t, y, slack) {
  return list.filter(f => Math.floor(y / 14) === f.row && t >= f.from - slack && t <= f.to + slack)
    .map(f => `${f.name} of ${f.whom}` + (f.to > f.from ? ` for ${lasted(f.to - f.from)}` : "") + ` at ${clock(f.from, 1)}` + (f.text ? "\n" + f.text : "")).join("\n");
}
function faultRow(whom) {
  const list = faults.filter(f => f.whom === whom), rows = stack(list);
  return {
    height: rows * 14 + 4,
    draw: (g, y) => { label(g, whom, y + 8); drawFaults(g, list, y + 2); },
    at: (t, y, slack) => faultsAt(list, t, y - 2, slack),
  };
}
function nodeRow(n) {
  const list = faults.filter(f => f.whom === n.name), rows = stack(list);
  return {
    height: 18 + rows * 14 + 4,
    draw(g, y) {
      label(g, n.name, y + 9);
      visible(n.changes, (a, b, state, _, text) => {
        const at = bar(g, colors[NODE[state]], a, b, y + 2, 14);
        if (at) inside(g, TEXT[text] || NODE[state], at[0], at[1], y + 9.5, colors.fg);
        if (at && a >= from && state === 0) bar(g, colors.violation, a, a, y + 2, 14);
      });
      drawFaults(g, list, y + 18);
    },
    at(t, y, slack) {
      if (y >= 18) return faultsAt(list, t, y - 18, slack);
      const e = entryAt(n.changes, t);
      return e && `${n.name} is ${NODE[e[2]]} from ${clock(e[0], 1)} for ${lasted(e[1] - e[0])}\n${TEXT[e[4]]}`;
    },
  };
}
function loadRow(l) {
  const sums = l.counts.map(c => c.reduce((a, b) => a + b, 0));
  const bad = i => l.counts[1][i] + l.counts[2][i] + l.counts[3][i];
  let most = 1, worst = 1;
  for (let i = 0; i < l.counts[0].length; i++) {
    most = Math.max(most, l.counts[0][i]);
    worst = Math.max(worst, bad(i));
  }
  const each = data.bucket / 1000 === 1 ? "/s" : ` in ${data.bucket / 1000} s`;
  return {
    height: 58,
    draw(g, y) {
      label(g, l.who, y + 9);
      if (sums[0]) label(g, `↑ up to ${most}${each}`, y + 23, colors.dim);
      if (sums[1] + sums[2] + sums[3]) label(g, `↓ up to ${worst}${each}`, y + 37, colors.dim);
      const base = y + 30;
      const first = Math.max(0, Math.floor(from / data.bucket)), last = Math.min(l.counts[0].length, Math.ceil(to / data.bucket) + 1);
      for (let i = first; i < last; i++) {
        const a = i * data.bucket, b = a + data.bucket;
        let h = 27 * l.counts[0][i] / most;
        if (h) bar(g, colors.sent, a, b, base - h, h);
        let down = base + 1;
        for (let kind = 1; kind < 4; kind++) {
          h = l.counts[kind][i] && Math.max(1, 17 * l.counts[kind][i] / worst);
          if (h) bar(g, colors[LOAD[kind][0]], a, b, down, h);
          down += h;
        }
        if (l.counts[4][i]) {
          g.globalAlpha = Math.min(1, .35 + l.counts[4][i] / 8);
          bar(g, colors.faulted, a, b, y + 51, 5);
          g.globalAlpha = 1;
        }
      }
      g.fillStyle = colors.line;
      g.fillRect(LABELS, base, width - LABELS, 1);
    },
    at(t) {
      const i = Math.floor(t / data.bucket), lines = [`${l.who}, ${clock(i * data.bucket, 1e3)} to ${clock((i + 1) * data.bucket, 1e3)}`];
      LOAD.forEach(([, name], kind) => lines.push(`${l.counts[kind][i] || 0} ${name}`));
      return lines.join("\n");
    },
  };
}
function jobRow(j) {
  return {
    height: 15, name: j.group + "/" + j.name,
    draw(g, y) {
      label(g, j.name, y + 7.5, j.blamed ? colors.violation : colors.fg);
      visible(j.changes, (a, b, state, node) => {
        if (!state) return;
        const at = bar(g, colors[JOB[state]], a, b, y + 1, 10);
        if (at) inside(g, state === 2 ? TEXT[node] : state > 2 ? JOB[state] : "", at[0], at[1], y + 6.5, colors.fg);
      });
      const shown = {};
      for (let i = 0; i < j.runs.length; i += 4) {
        const [a, b, node] = [j.runs[i], j.runs[i + 1], j.runs[i + 2]];
        if (b < from || a > to) continue;
        const other = Object.entries(shown).some(([n, end]) => n !== String(node) && end > a); // two at once
        bar(g, hue(node), a, b, y + (other ? 13 : 11), 2);
        shown[node] = Math.max(shown[node] || 0, b);
      }
    },
    at(t) {
      const lines = [j.group + "/" + j.name + (j.blamed ? ", named in the violation" : "")], e = entryAt(j.changes, t);
      if (e) lines.push(`${JOB[e[2]]}${TEXT[e[3]] ? " on " + TEXT[e[3]] : ""} from ${clock(e[0], 1)} for ${lasted(e[1] - e[0])}`);
      if (e && TEXT[e[4]]) lines.push(TEXT[e[4]]);
      for (let i = 0; i < j.runs.length; i += 4) {
        if (t >= j.runs[i] && t <= j.runs[i + 1]) {
          lines.push(`${TEXT[j.runs[i + 2]] ? "run on " + TEXT[j.runs[i + 2]] : "several runs"} from ${clock(j.runs[i], 1)} for ${lasted(j.runs[i + 1] - j.runs[i])}` +
            (TEXT[j.runs[i + 3]] ? ", then: " + TEXT[j.runs[i + 3]] : ""));
        }
      }
      return lines.join("\n");
    },
  };
}

// --- groups

const groups = [];
function group(title, note, rows) {
  if (!rows.length) return;
  const h2 = document.createElement("h2"), canvas = document.createElement("canvas"), small = document.createElement("small");
  h2.textContent = title + " ";
  small.textContent = note;
  h2.append(small);
  $("groups").append(h2, canvas);
  const made = { h2, canvas, rows, shown: rows, dirty: true };
  h2.onclick = () => { canvas.hidden = h2.classList.toggle("folded"); canvas.style.display = canvas.hidden ? "none" : ""; redraw(); };
  groups.push(made);
}
const names = data.nodes.map(n => n.name);
group("Nodes", "life, and below it what was done to each", data.nodes.map(nodeRow));
group("Store, servers, databases", "what was done to them", [...new Set(faults.map(f => f.whom))].filter(w => !names.includes(w)).sort().map(faultRow));
group("Transactions", "up: commits sent; down: tried again; below: faults of requests and store operations", data.loads.map(loadRow));
for (const db of [...new Set(data.jobs.map(j => j.group))]) {
  const jobs = data.jobs.filter(j => j.group === db);
  group(db, `${jobs.length} jobs`, jobs.map(jobRow));
}

// moments draws what concerns everything: the grid, the end of trouble, the violation.
function moments(g, height, grid) {
  const step = tick();
  if (grid) {
    g.fillStyle = colors.line;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) g.fillRect(Math.round(x(t)), 0, 1, height);
  }
  const line = (t, color, w) => { if (t >= from && t <= to) { g.fillStyle = color; g.fillRect(x(t) - w / 2, 0, w, height); } };
  if (!grid && data.healed >= 0) line(data.healed, colors.healed, 1.5);
  if (!grid && data.violation) line(data.violation.at, colors.violation, 2);
}
function context(canvas, height) {
  const scale = devicePixelRatio || 1, w = canvas.clientWidth;
  canvas.style.height = height + "px";
  canvas.width = Math.round(w * scale);
  canvas.height = Math.round(height * scale);
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  return g;
}
function drawGroup(p) {
  const height = Math.max(p.shown.reduce((sum, r) => sum + r.height, 0), 1), g = context(p.canvas, height);
  let y = 0;
  p.shown.forEach((r, i) => {
    if (i % 2) { g.fillStyle = colors.band; g.fillRect(0, y, width, r.height); }
    y += r.height;
  });
  moments(g, height, true);
  y = 0;
  for (const r of p.shown) { r.draw(g, y); y += r.height; }
  moments(g, height, false);
  p.dirty = false;
}

// --- the bar at the top: all of the time, and the part that is shown

function drawOverview() {
  const g = context($("overview"), 30), shown = [from, to];
  [from, to] = [0, data.end];
  g.fillStyle = colors.band;
  g.fillRect(LABELS, 0, width - LABELS, 30);
  g.globalAlpha = .8;
  for (const f of faults) bar(g, colors.fault, f.from, Math.max(f.to, f.from + 1), 18, 9);
  const n = data.loads.reduce((m, l) => Math.max(m, l.counts[0].length), 0), sums = [];
  for (let i = 0; i < n; i++) sums.push(data.loads.reduce((s, l) => s + (l.counts[0][i] || 0), 0));
  const most = Math.max(1, ...sums);
  sums.forEach((s, i) => s && bar(g, colors.sent, i * data.bucket, (i + 1) * data.bucket, 16 - 14 * s / most, 14 * s / most));
  g.globalAlpha = 1;
  moments(g, 30, false);
  label(g, "commits", 9, colors.dim);
  label(g, "faults", 22, colors.dim);
  const [l, r] = [x(shown[0]), x(shown[1])];
  [from, to] = shown;
  g.fillStyle = colors.bg;
  g.globalAlpha = .72;
  g.fillRect(LABELS, 0, l - LABELS, 30);
  g.fillRect(r, 0, width - r, 30);
  g.globalAlpha = 1;
  g.strokeStyle = colors.fg;
  g.strokeRect(l + .5, .5, Math.max(r - l - 1, 2), 29);
}
function drawAxis() {
  const g = context($("axis"), 20), step = tick();
  g.fillStyle = colors.dim;
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    g.fillRect(Math.round(x(t)), 0, 1, 4);
    const text = clock(t, step), w = g.measureText(text).width;
    const flagged = [data.healed, data.violation ? data.violation.at : -1].some(f => f >= 0 && Math.abs(x(f) - x(t)) < (f === data.healed ? 50 : 85));
    if (!flagged && x(t) - w / 2 > LABELS - 20 && x(t) + w / 2 < width) g.fillText(text, x(t) - w / 2, 12);
  }
  label(g, `shown: ${lasted(to - from)}`, 11, colors.dim);
  const flag = (t, text, color) => {
    if (t < from || t > to) return;
    const w = g.measureText(text).width + 8, l = Math.min(Math.max(x(t) - w / 2, LABELS), width - w);
    g.fillStyle = color;
    g.fillRect(l, 4, w, 15);
    g.fillStyle = colors.bg;
    g.fillText(text, l + 4, 12);
  };
  if (data.healed >= 0) flag(data.healed, "healed", colors.healed);
  if (data.violation) flag(data.violation.at, `${data.violation.id} at ${clock(data.violation.at, 1)}`, colors.violation);
}

let planned = false;
function redraw() {
  groups.forEach(p => { p.dirty = true; });
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    width = $("overview").clientWidth;
    drawOverview();
    drawAxis();
    drawInSight();
  });
}
// drawInSight leaves out what nobody sees.
function drawInSight() {
  for (const p of groups) {
    if (!p.dirty || p.canvas.hidden) continue;
    p.canvas.style.height = Math.max(p.shown.reduce((sum, r) => sum + r.height, 0), 1) + "px";
    const box = p.canvas.getBoundingClientRect();
    if (box.bottom > -200 && box.top < innerHeight + 200) drawGroup(p);
  }
}
addEventListener("scroll", () => requestAnimationFrame(drawInSight));

// --- moving

function show(a, b) {
  const least = 20;
  if (b - a < least) { const middle = (a + b) / 2; a = middle - least / 2; b = middle + least / 2; }
  if (a < 0) { b -= a; a = 0; }
  if (b > data.end) { a = Math.max(0, a - (b - data.end)); b = data.end; }
  [from, to] = [a, b];
  const whole = from === 0 && to === data.end;
  history.replaceState(null, "", whole ? location.pathname + location.search : `#t=${(from / 1000).toFixed(3)}-${(to / 1000).toFixed(3)}`);
  redraw();
}
const zoom = (factor, t = (from + to) / 2) => show(t - (t - from) * factor, t + (to - t) * factor);
const move = share => { const d = (to - from) * share; if (from + d < 0) show(0, to - from); else if (to + d > data.end) show(data.end - (to - from), data.end); else show(from + d, to + d); };
const all = () => show(0, data.end);
function problem() {
  const v = data.violation.at, half = Math.min(60e3, data.end / 2);
  show(Math.max(0, v - 1.5 * half), Math.min(data.end, v + half / 2));
}
$("all").onclick = all;
$("in").onclick = () => zoom(.5);
$("out").onclick = () => zoom(2);
$("left").onclick = () => move(-.5);
$("right").onclick = () => move(.5);
$("problem").hidden = !data.violation;
$("problem").onclick = problem;
addEventListener("keydown", e => {
  if (e.target === $("find") || e.ctrlKey || e.metaKey || e.altKey) return;
  const act = { "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "0": all, ArrowLeft: () => move(-.25), ArrowRight: () => move(.25) }[e.key];
  if (act) { e.preventDefault(); act(); }
});
$("find").oninput = e => {
  const wanted = e.target.value.toLowerCase();
  for (const p of groups) {
    p.shown = p.rows.filter(r => !r.name || r.name.toLowerCase().includes(wanted));
    p.h2.style.display = p.shown.length ? "" : "none";
    p.canvas.style.display = p.shown.length && !p.canvas.hidden ? "" : "none";
  }
  redraw();
};

let drag = null;
const moment = e => { const box = $("axis").getBoundingClientRect(); return Math.min(Math.max(time(e.clientX - box.left), from), to); };
function press(e) {
  if (e.button !== 0) return;
  drag = { at: e.clientX, t: moment(e), overview: e.target === $("overview") };
  if (drag.overview) travel(e);
  e.preventDefault();
}
// travel moves what is shown to where the pointer is in the bar at the top.
function travel(e) {
  const box = $("overview").getBoundingClientRect();
  const t = (e.clientX - box.left - LABELS) / (width - LABELS) * data.end, half = (to - from) / 2;
  const middle = Math.min(Math.max(t, half), data.end - half);
  show(middle - half, middle + half);
}
addEventListener("pointermove", e => {
  if (drag && drag.overview) return travel(e);
  if (drag) {
    const [l, r] = [Math.min(drag.at, e.clientX), Math.max(drag.at, e.clientX)];
    Object.assign($("range").style, { display: r - l > 4 ? "block" : "none", left: l + "px", width: r - l + "px" });
  }
  hover(e);
});
addEventListener("pointerup", e => {
  if (drag && !drag.overview && Math.abs(e.clientX - drag.at) > 4) {
    const t = moment(e);
    show(Math.min(t, drag.t), Math.max(t, drag.t));
  }
  drag = null;
  $("range").style.display = "none";
});
addEventListener("wheel", e => {
  if (e.target.tagName !== "CANVAS") return;
  if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : .8, moment(e)); }
  else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); move((e.deltaX || e.deltaY) / 1000); }
}, { passive: false });
addEventListener("dblclick", e => { if (e.target.tagName === "CANVAS") all(); });

function hover(e) {
  const tip = $("tip"), canvas = e.target, on = canvas.tagName === "CANVAS" && canvas.id !== "overview";
  const px = on ? e.clientX - canvas.getBoundingClientRect().left : -1;
  const active = on && px >= LABELS;
  $("cross").style.display = active ? "block" : "none";
  tip.style.display = "none";
  if (!on) return;
  $("cross").style.left = e.clientX + "px";
  const t = time(px), slack = (to - from) / (width - LABELS) * 4, p = groups.find(p => p.canvas === canvas);
  let text = "", y = p ? e.clientY - canvas.getBoundingClientRect().top : 0;
  for (const r of p ? p.shown : []) {
    if (y < r.height) { text = active ? r.at(t, y, slack) : r.name; break; }
    y -= r.height;
  }
  const v = data.violation;
  if (active && v && Math.abs(t - v.at) < slack) text = `${v.id} at ${clock(v.at, 1)}, event ${v.step}: ${v.rule}\n${v.text.slice(0, 600)}\n\n${text || ""}`;
  tip.textContent = active ? `${clock(t, 1)}\n${text || ""}`.trim() : text || "";
  if (!tip.textContent) return;
  tip.style.display = "block";
  const box = tip.getBoundingClientRect();
  tip.style.left = (e.clientX + 14 + box.width > innerWidth ? Math.max(4, e.clientX - box.width - 12) : e.clientX + 14) + "px";
  tip.style.top = Math.max(4, Math.min(e.clientY + 14, innerHeight - box.height - 6)) + "px";
}

// --- the beginning

function legend() {
  const parts = [["jobs", JOB.slice(1).map(s => [s, s])], ["run on", data.nodes.map((n, i) => [n.name, "hue" + i])], ["nodes", NODE.map(s => [s, s])],
    ["transactions", LOAD.slice(0, 4)
      .map(([c, name]) => [name, c])], ["", [["fault", "fault"]]]];
  $("legend").replaceChildren();
  for (const [title, entries] of parts) {
    const span = document.createElement("span"), b = document.createElement("b");
    b.textContent = title ? title + " " : "";
    span.append(b);
    for (const [name, color] of entries) {
      const i = document.createElement("i");
      const n = color.startsWith("hue") ? +color.slice(3) : -1;
      i.style.background = n >= 0 ? `hsl(${hues[n % hues.length]} 70% ${colors.dark ? 62 : 42}%)` : colors[color];
      if (n >= 0) i.className = "thin";
      span.append(i, name + "  ");
    }
    $("legend").append(span);
  }
}
function paint() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "fg", "dim", "line", "band", "pending", "running", "crashing", "completed", "failed", "up", "draining", "down", "fault",
    "faulttext", "mark", "violation", "healed", "sent", "conflict", "unknown", "again", "faulted"]) colors[name] = style.getPropertyValue("--" + name).trim();
  colors.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  legend();
  redraw();
}
for (const id of ["overview", "axis"]) $(id).addEventListener("pointerdown", press);
$("groups").addEventListener("pointerdown", e => { if (e.target.tagName === "CANVAS") press(e); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
new ResizeObserver(redraw).observe(document.body);
const asked = /^#t=([\d.]+)-([\d.]+)$/.exec(location.hash);
if (asked) [from, to] = [asked[1] * 1000, Math.min(asked[2] * 1000, data.end)];
paint();
