/* The page's own code. BENCH: data of the functionals and atoms; KERNELS: their compiled functions by name. */
"use strict";

const C_X = -0.75*Math.cbrt(3/Math.PI), C_F = 0.3*Math.cbrt(3*Math.PI*Math.PI)**2, K_F = Math.cbrt(3*Math.PI*Math.PI);
const COLOURS = ["#2f6fb3", "#d1603d", "#3c8c4a", "#8a5fb0", "#7a7a7a"];
const N = 9;

/* ---- rows of numbers */

const rows = (count, m) => Array.from({length: count}, () => new Float64Array(m));
const line = (low, high, m) => Float64Array.from({length: m}, (_, i) => low + (high - low)*i/(m - 1));
const row = text => {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Float64Array(bytes.buffer);
};
const table = (texts, m) => { const all = row(texts); return Array.from({length: all.length/m}, (_, k) => all.subarray(k*m, (k + 1)*m)); };

const PLACES = [...BENCH.atoms, ...BENCH.bonds];
for (const atom of PLACES) {
  atom.r = row(atom.r);
  const m = atom.m = atom.r.length;
  for (const key of ["x", "change", "laplacian", "slope"]) atom[key] = table(atom[key], m);
  for (const key of ["weights", "hartree"]) if (atom[key]) atom[key] = row(atom[key]);
  for (const f of BENCH.functionals) if (f.libxc && f.libxc[atom.symbol]) f.libxc[atom.symbol] = row(f.libxc[atom.symbol]);
}

for (const one of BENCH.species) {
  one.weights = row(one.weights);
  one.m = one.weights.length;
  one.x = table(one.x, one.m);
  if (one.x.length === 4) one.x = [0, 0, 1, 1, 1, 2, 2, 3, 3].map(k => one.x[k]);  // of a closed shell
}

/* ---- functionals: the sum of their parts, each with its share of the parameters */

const state = {rs: 2, zeta: 0, alpha: 1, q: 0, s: 1, atom: "Ne", condition: "ec_nonpositive", shown: 0, values: BENCH.functionals.map(f => f.parameters.map(p => p.value))};

function evaluate(f, kinds, order, x, seeds) {
  /* Rows of the sum of parts: energy; slopes by the nine variables; their derivatives along seeds. */
  const m = x[0].length, groups = order ? 1 << order : 0, sum = rows(1 + N*groups, m);
  for (const part of f.parts) {
    if (!kinds.includes(part.kind)) continue;
    const used = part.used, n = used.length, p = part.places.map(k => state.values[f.index][k]);
    const y = rows(1 + n*groups, m);
    KERNELS[`${part.name}_${order}`](m, x, p, seeds, y);
    const add = (to, from) => { for (let i = 0; i < m; ++i) to[i] += from[i]; };
    add(sum[0], y[0]);
    for (let g = 0; g < groups; ++g) for (let k = 0; k < n; ++k) add(sum[1 + N*g + used[k]], y[1 + n*g + k]);
  }
  return sum;
}

const kindsOf = f => f.parts.map(part => part.kind);
const unitOf = (f, n) => f.kinetic ? C_F*n**(5/3) : C_X*n**(4/3);
const has = (f, name) => f.ingredients.includes(name);
const any = name => BENCH.functionals.some(f => has(f, name));

function gas(points) {
  /* The nine variables of points {rs, s, alpha, q, zeta}; definitions of Pederson and Burke. */
  const x = rows(N, points.length);
  points.forEach(({rs, s, alpha, q, zeta}, i) => {
    const n = 3/(4*Math.PI*rs**3), up = (1 + zeta)/2, down = (1 - zeta)/2, unit = n**(5/3);
    const sigma = 4*K_F**2*s*s*n**(8/3), lapl = 4*K_F**2*q*unit;
    const spread = ((2*up)**(5/3) + (2*down)**(5/3))/2;
    const tau = C_F*alpha*unit*spread + sigma/(8*n);
    [up*n, down*n, up*up*sigma, up*down*sigma, down*down*sigma, up*lapl, down*lapl, up*tau, down*tau].forEach((v, k) => { x[k][i] = v; });
  });
  return x;
}

const at = changes => ({rs: state.rs, s: state.s, alpha: state.alpha, q: state.q, zeta: state.zeta, ...changes});
const total = (x, i) => x[0][i] + x[1][i];

function enhancement(f, kinds, points) {
  const x = gas(points), e = evaluate(f, kinds, 0, x)[0];
  return e.map((v, i) => v/unitOf(f, total(x, i)));
}

/* Powers of r_s with which the variables change at fixed s, alpha, q, zeta. */
const POWERS = [-3, -3, -8, -8, -8, -5, -5, -5, -5];

function scaled(f, kinds, points) {
  /* F, r_s dF/dr_s and r_s d/dr_s of that, as functions of log r_s. */
  const x = gas(points), m = points.length;
  const seeds = [x.map((v, k) => v.map(u => POWERS[k]*u))];
  const y = evaluate(f, kinds, 1, x, seeds), F = rows(3, m);
  for (let i = 0; i < m; ++i) {
    const unit = unitOf(f, total(x, i)), power = f.kinetic ? -5 : -4;
    let first = 0, second = 0;
    for (let k = 0; k < N; ++k) {
      first += y[1 + k][i]*POWERS[k]*x[k][i];
      second += y[1 + N + k][i]*POWERS[k]*x[k][i] + y[1 + k][i]*POWERS[k]**2*x[k][i];
    }
    F[0][i] = y[0][i]/unit;
    F[1][i] = first/unit - power*F[0][i];
    F[2][i] = second/unit - 2*power*first/unit + power*power*F[0][i];
  }
  return F;
}

/* ---- what is computed */

function alongGradient(f, kinds, m) {
  /* F, dF/ds, d2F/ds2 over s, exact, and the third derivative as differences of the second. */
  const s = line(0, 5, m), points = [...s].map(v => at({s: v})), x = gas(points), spread = state.zeta;
  const seed = rows(N, m);
  for (let i = 0; i < m; ++i) {
    const n = total(x, i), up = (1 + spread)/2, down = (1 - spread)/2, change = 8*K_F**2*s[i]*n**(8/3);
    [0, 0, up*up*change, up*down*change, down*down*change, 0, 0, up*change/(8*n), down*change/(8*n)].forEach((v, k) => { seed[k][i] = v; });
  }
  const y = evaluate(f, kinds, 1, x, [seed]), F = rows(4, m);
  for (let i = 0; i < m; ++i) {
    const unit = unitOf(f, total(x, i)), over = s[i] ? 1/s[i] : 0;
    let first = 0, second = 0;
    for (let k = 2; k < N; ++k) {
      first += y[1 + k][i]*seed[k][i];
      second += y[1 + N + k][i]*seed[k][i] + y[1 + k][i]*seed[k][i]*over;
    }
    F[0][i] = y[0][i]/unit; F[1][i] = first/unit; F[2][i] = s[i] ? second/unit : NaN;
  }
  for (let i = 2; i < m - 1; ++i) F[3][i] = (F[2][i + 1] - F[2][i - 1])/(s[i + 1] - s[i - 1]);
  F[3][0] = F[3][1] = F[3][m - 1] = NaN;
  return {s, F};
}

function potential(f, kinds, atom) {
  /* v of spin alpha: e_n - div(2 e_aa grad n_a + e_ab grad n_b) + lapl(e_l), carried out along the radius. */
  const m = atom.m, v = new Float64Array(m), y = evaluate(f, kinds, 1, atom.x, [atom.change]);
  const change = k => y[1 + N + k];
  for (let i = 0; i < m; ++i) {
    v[i] = y[1][i] - 2*(y[3][i]*atom.laplaceN[0][i] + change(2)[i]*atom.slope[0][i]);
    v[i] -= y[4][i]*atom.laplaceN[1][i] + change(3)[i]*atom.slope[1][i];
  }
  if (has(f, "lapl")) {
    const first = evaluate(f, kinds, 1, atom.x, [atom.laplacian])[1 + N + 5];
    const second = evaluate(f, kinds, 2, atom.x, [atom.change, atom.change])[1 + 3*N + 5];
    for (let i = 0; i < m; ++i) v[i] += first[i] + second[i];
  }
  return v;
}
for (const atom of PLACES) atom.laplaceN = [atom.x[5], atom.x[6]];

function atomEnergy(f, kinds, atom, stride = 1) {
  const e = evaluate(f, kinds, 0, atom.x)[0];
  let sum = 0;
  for (let i = 0; i < atom.m; i += stride) sum += atom.weights[i]*e[i];
  return sum*stride;
}

function kernelOverS(f, m) {
  /* n^(2/3) d2e/dn2 at fixed sigma, lapl and tau, per spin both alike. */
  const s = line(0, 5, m), x = gas([...s].map(v => at({s: v}))), seed = rows(N, m);
  for (let i = 0; i < m; ++i) { const n = total(x, i); seed[0][i] = x[0][i]/n; seed[1][i] = x[1][i]/n; }
  const y = evaluate(f, kindsOf(f), 1, x, [seed]);
  const values = s.map((_, i) => total(x, i)**(2/3)*(y[1 + N][i]*seed[0][i] + y[2 + N][i]*seed[1][i]));
  return {s, values};
}

/* Local conditions, each an expression that is to be >= 0, of F_x, F_c and its derivatives, F_c at r_s = 100. */
const LIEB_OXFORD = 2.27;
const CONDITIONS = {
  ec_nonpositive: ["E_c ≤ 0", "c", t => t.c[0]],
  ec_scaling: ["scaling of E_c", "c", t => t.c[1]],
  uc_monotone: ["U_c monotone", "c", t => t.c[2] + t.c[1]],
  lieb_oxford: ["Lieb–Oxford", "xc", t => LIEB_OXFORD - t.x - t.c[0] - t.c[1]],
  lieb_oxford_exc: ["Lieb–Oxford, extended", "xc", t => LIEB_OXFORD - t.x - t.c[0]],
  tc_upper: ["T_c upper bound", "c", t => t.far - t.c[0] - t.c[1]],
  tc_conjecture: ["T_c conjecture", "c", t => t.c[0] - t.c[1]],
  ex_nonpositive: ["E_x ≤ 0", "x", t => t.x],
  ex_bounded: ["F_x ≤ 1.804", "x", t => 1.804 - t.x],
  ex_two_electrons: ["F_x ≤ 1.174", "x", t => 1.174 - t.x],
};
const SIDE = 41;

function conditionValues(f) {
  /* All conditions on a map of s (columns) and log r_s (rows), at the alpha, q and zeta of the sliders. */
  const points = [], s = line(0, 5, SIDE), rs = line(Math.log(1e-2), Math.log(10), SIDE).map(Math.exp);
  for (const r of rs) for (const v of s) points.push(at({rs: r, s: v}));
  const kinds = kindsOf(f), hasC = kinds.includes("c"), hasX = kinds.includes("x") && !f.hybrid;
  const c = hasC ? scaled(f, ["c"], points) : null, x = hasX ? enhancement(f, ["x"], points) : null;
  const far = hasC ? enhancement(f, ["c"], points.slice(0, SIDE).map(p => ({...p, rs: 100}))) : null;
  const found = {};
  for (const [name, [, needs, code]] of Object.entries(CONDITIONS)) {
    if ((needs.includes("c") && !hasC) || (needs.includes("x") && !hasX)) continue;
    found[name] = Float64Array.from(points, (_, i) => code({c: c && c.map(v => v[i]), x: x && x[i], far: far && far[i % SIDE]}));
  }
  return {s, rs, found, points};
}

/* ---- drawing */

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const finite = values => [...values].filter(Number.isFinite);
const short = v => v === 0 ? "0" : Math.abs(v) >= 1e4 || Math.abs(v) < 1e-3 ? v.toExponential(1) : String(+v.toPrecision(3));

function prepared(id) {
  const canvas = document.getElementById(id), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 420, height = canvas.clientHeight || 270;
  if (canvas.width !== Math.round(width*ratio)) { canvas.width = Math.round(width*ratio); canvas.height = Math.round(height*ratio); }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return {canvas, pen, width, height};
}

function ticks(low, high, count) {
  const raw = (high - low)/count, power = 10**Math.floor(Math.log10(raw)), step = power*[1, 2, 5, 10].find(k => k*power >= raw);
  const found = [];
  for (let v = Math.ceil(low/step)*step; v <= high + 1e-9*step; v += step) found.push(Math.abs(v) < 1e-9*step ? 0 : v);
  return found;
}

function frame(view, xs, ys, xLabel, log) {
  const {pen, width, height} = view, left = 52, right = 12, top = 10, bottom = 34;
  const X = v => left + (v - xs[0])/(xs[1] - xs[0])*(width - left - right);
  const Y = v => height - bottom - (v - ys[0])/(ys[1] - ys[0])*(height - top - bottom);
  pen.strokeStyle = css("--grid"); pen.fillStyle = css("--ink"); pen.lineWidth = 1;
  pen.textAlign = "center";
  for (const v of log ? range(Math.ceil(xs[0]), Math.floor(xs[1])) : ticks(...xs, 6)) {
    pen.beginPath(); pen.moveTo(X(v), top); pen.lineTo(X(v), height - bottom); pen.stroke();
    pen.fillText(log ? short(10**v) : short(v), X(v), height - bottom + 15);
  }
  pen.textAlign = "right";
  for (const v of ticks(...ys, 5)) {
    pen.beginPath(); pen.moveTo(left, Y(v)); pen.lineTo(width - right, Y(v)); pen.stroke();
    pen.fillText(short(v), left - 5, Y(v) + 4);
  }
  pen.textAlign = "center";
  pen.fillText(xLabel, (left + width - right)/2, height - 4);
  return {X, Y, left, right: width - right, top, bottom: height - bottom};
}
const range = (a, b) => Array.from({length: Math.max(0, b - a + 1)}, (_, k) => a + k);

function plot(id, curves, {xLabel, log = false, low, high, about}) {
  /* curves: {x, y, label, colour, dashed}. */
  const view = prepared(id), all = curves.flatMap(c => finite(c.y));
  const xs = curves.length ? [curves[0].x[0], curves[0].x[curves[0].x.length - 1]].map(v => log ? Math.log10(v) : v) : [0, 1];
  let ys = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  if (low !== undefined) ys[0] = Math.max(low, ys[0]);
  if (high !== undefined) ys[1] = Math.min(high, ys[1]);
  const room = Math.max(0.06*(ys[1] - ys[0]), 1e-3*Math.max(1e-6, Math.abs(ys[1])));
  ys = [ys[0] - room, ys[1] + room];
  const box = frame(view, xs, ys, xLabel, log), {pen} = view;
  pen.save(); pen.beginPath(); pen.rect(box.left, box.top, box.right - box.left, box.bottom - box.top); pen.clip();
  for (const c of curves) {
    pen.beginPath(); pen.strokeStyle = c.colour; pen.lineWidth = 2; pen.setLineDash(c.dashed ? [6, 4] : []);
    let down = false;
    for (let i = 0; i < c.x.length; ++i) {
      if (!Number.isFinite(c.y[i])) { down = false; continue; }
      const X = box.X(log ? Math.log10(c.x[i]) : c.x[i]), Y = box.Y(c.y[i]);
      if (down) pen.lineTo(X, Y); else pen.moveTo(X, Y);
      down = true;
    }
    pen.stroke();
  }
  pen.restore(); pen.setLineDash([]);
  legend(id, curves);
  view.canvas.setAttribute("aria-label", `${about}: ${curves.map(c => `${c.label} from ${short(finite(c.y)[0] ?? NaN)} to ${short(finite(c.y).at(-1) ?? NaN)}`).join("; ")}`);
  view.canvas.readout = (px) => {
    const u = xs[0] + (px - box.left)/(box.right - box.left)*(xs[1] - xs[0]), v = log ? 10**u : u;
    if (u < xs[0] || u > xs[1] || !curves.length) return "";
    const i = nearest(curves[0].x, v);
    return `${xLabel.split(" ")[0]} = ${short(curves[0].x[i])}: ` + curves.map(c => `${c.label} ${Number.isFinite(c.y[i]) ? c.y[i].toPrecision(6) : "–"}`).join(", ");
  };
}
const nearest = (x, v) => { let best = 0; for (let i = 1; i < x.length; ++i) if (Math.abs(x[i] - v) < Math.abs(x[best] - v)) best = i; return best; };

function legend(id, curves) {
  document.getElementById(`${id}-legend`).replaceChildren(...curves.map(c => {
    const item = document.createElement("span"), mark = document.createElement("i");
    mark.style.borderTop = `3px ${c.dashed ? "dashed" : "solid"} ${c.colour}`;
    item.append(mark, c.label);
    return item;
  }));
}

function heat(id, columns, values, side, {xs, ys, xLabel, logY, about, diverging}) {
  /* values: side x side from the bottom row up. */
  const view = prepared(id), all = finite(values), low = Math.min(...all), high = Math.max(...all);
  const image = document.createElement("canvas");
  image.width = image.height = side;
  const data = image.getContext("2d").createImageData(side, side);
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  values.forEach((v, i) => {
    const to = 4*((side - 1 - Math.floor(i/side))*side + i % side);
    data.data.set([...(diverging ? signed(v, reach) : ramp((v - low)/((high - low) || 1))), 255], to);
  });
  image.getContext("2d").putImageData(data, 0, 0);
  const box = frame(view, xs, ys, xLabel, false), {pen} = view;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, box.left, box.top, box.right - box.left, box.bottom - box.top);
  document.getElementById(`${id}-legend`).textContent = `${short(low)} to ${short(high)}` + (logY ? "; upwards: log₁₀ r_s" : "");
  view.canvas.setAttribute("aria-label", `${about}, from ${short(low)} to ${short(high)}`);
  view.canvas.readout = (px, py) => {
    const i = Math.round((px - box.left)/(box.right - box.left)*(side - 1)), j = Math.round((box.bottom - py)/(box.bottom - box.top)*(side - 1));
    return i < 0 || j < 0 || i >= side || j >= side ? "" : `${columns(i, j)}: ${values[j*side + i].toPrecision(6)}`;
  };
}
const mix = (a, b, t) => a.map((v, k) => Math.round(v + (b[k] - v)*t));
const RAMP = [[35, 42, 110], [44, 110, 160], [75, 170, 140], [180, 205, 90], [250, 230, 120]];
const ramp = t => { const u = 4*Math.min(1, Math.max(0, t)), k = Math.min(3, Math.floor(u)); return mix(RAMP[k], RAMP[k + 1], u - k); };
const signed = (v, reach) => !Number.isFinite(v) ? [128, 128, 128] : v < 0 ? mix([255, 214, 205], [178, 30, 30], Math.min(1, Math.sqrt(-v/reach))) : mix([238, 244, 240], [60, 130, 90], Math.min(1, Math.sqrt(v/reach)));

/* ---- the page */

const f = () => BENCH.functionals[state.shown];
const label = one => BENCH.functionals.length > 1 ? `${one.name} ` : "";
const colourOf = one => COLOURS[one.index];

function drawEnhancements() {
  const s = line(0, 5, 201), exchange = [], correlation = [];
  for (const one of BENCH.functionals) {
    const kinds = kindsOf(one), shared = kinds.filter(k => k === "xc" || k === "k");
    const curve = (part, text, changes, dashed) => ({x: s, y: enhancement(one, part, [...s].map(v => at({s: v, ...changes}))), label: label(one) + text, dashed});
    const many = has(one, "tau") ? [0, 1, 5].map(alpha => [{alpha}, `α = ${alpha}`]) : has(one, "lapl") ? [-1, 0, 1].map(q => [{q}, `q = ${q}`]) : [[{}, "F_x"]];
    if (kinds.includes("x")) many.forEach(([changes, text]) => exchange.push(curve(["x"], text, changes)));
    shared.forEach(kind => exchange.push(curve([kind], kind === "k" ? "t/t_TF" : "F_xc", {})));
    if (kinds.includes("c")) [0.5, 2, 10].forEach(rs => correlation.push(curve(["c"], `r_s = ${rs}`, {rs})));
  }
  for (const curves of [exchange, correlation]) {  // the same place in the same colour, the second functional in broken lines
    const met = [0, 0];
    curves.forEach(c => {
      const other = +(BENCH.functionals.length > 1 && c.label.startsWith(label(BENCH.functionals[1]))), k = met[other]++;
      c.colour = COLOURS[k % COLOURS.length]; c.dashed = other === 1 || k >= COLOURS.length;
    });
  }
  plot("fx", exchange, {xLabel: "s", about: "Enhancement factor of exchange over s"});
  plot("fc", correlation, {xLabel: "s", about: "Enhancement factor of correlation over s"});
}

function drawSurface() {
  const one = f(), axis = has(one, "tau") ? "alpha" : has(one, "lapl") ? "q" : "rs", reach = {alpha: [0, 5], q: [-1, 1], rs: [-1.3, 1]}[axis];
  const s = line(0, 5, SIDE), other = line(...reach, SIDE), points = [];
  for (const v of other) for (const u of s) points.push(at({s: u, [axis]: axis === "rs" ? 10**v : v}));
  heat("surface", (i, j) => `s = ${short(s[i])}, ${axis} = ${short(axis === "rs" ? 10**other[j] : other[j])}`, enhancement(one, kindsOf(one), points), SIDE,
    {xs: [0, 5], ys: reach, xLabel: "s", logY: axis === "rs", about: `${one.name}: F over s and ${axis}`});
  document.getElementById("surface-title").textContent = `F(s, ${{alpha: "α", q: "q", rs: "r_s"}[axis]}) of ${one.name}`;
}

function drawPotential() {
  const atom = PLACES.find(a => a.symbol === state.atom), bond = BENCH.bonds.includes(atom), curves = [];
  const from = bond ? 0 : atom.r.findIndex(r => r > 0.02), to = bond ? atom.m : atom.r.findIndex(r => r > 10);
  const r = atom.r.subarray(from, to);
  for (const one of BENCH.functionals) {
    curves.push({x: r, y: potential(one, kindsOf(one), atom).subarray(from, to), label: one.name, colour: colourOf(one)});
    if (one.libxc && one.libxc[atom.symbol]) curves.push({x: r, y: one.libxc[atom.symbol].subarray(from, to), label: `libxc ${one.libxc.name}`, colour: "#888", dashed: true});
  }
  if (atom.exact) curves.push({x: r, y: Float64Array.from(r, (_, i) => -atom.exact.share*atom.hartree[from + i]), label: atom.exact.kind === "x" ? "exact exchange" : "exact", colour: COLOURS[2], dashed: true});
  const middle = curves.flatMap(c => finite(c.y)).sort((a, b) => a - b);
  plot("potential", curves, {xLabel: bond ? "z [bohr] from the first nucleus" : "r [bohr]", log: !bond, low: middle[Math.floor(0.02*middle.length)], high: middle[Math.ceil(0.98*middle.length) - 1], about: `Potential of ${state.atom}`});
}

function drawKernel() {
  plot("kernel", BENCH.functionals.map(one => { const {s, values} = kernelOverS(one, 201); return {x: s, y: values, label: one.name, colour: colourOf(one)}; }), {xLabel: "s", about: "Second derivative by the density"});
}

function drawSmoothness() {
  const curves = [];
  for (const one of BENCH.functionals) {
    const {s, F} = alongGradient(one, kindsOf(one), 201);
    curves.push({x: s, y: F[2], label: `${label(one)}F″`, colour: COLOURS[2*one.index]}, {x: s, y: F[3], label: `${label(one)}F‴`, colour: COLOURS[2*one.index + 1], dashed: true});
  }
  const middle = curves.flatMap(c => finite(c.y)).sort((a, b) => a - b);
  plot("smooth", curves, {xLabel: "s", low: middle[Math.floor(0.01*middle.length)], high: middle[Math.ceil(0.99*middle.length) - 1], about: "Second and third derivative of F by s"});
}

function drawConditions() {
  const one = f(), {s, rs, found, points} = conditionValues(one), chips = document.getElementById("chips");
  const names = Object.keys(found);
  chips.replaceChildren(...names.map(name => {
    const values = found[name], worst = values.reduce((best, v, i) => v < values[best] || Number.isNaN(v) ? i : best, 0), broken = !(values[worst] >= -1e-9);
    const chip = document.createElement("button");
    chip.type = "button";
    chip.className = broken ? "broken" : "kept";
    chip.setAttribute("aria-pressed", String(name === state.condition));
    chip.textContent = `${CONDITIONS[name][0]} ${broken ? `✗ ${short(values[worst])} at s ${short(points[worst].s)}, r_s ${short(points[worst].rs)}` : "✓"}`;
    chip.onclick = () => { state.condition = name; redraw(); };
    return chip;
  }));
  const name = names.includes(state.condition) ? state.condition : names[0];
  document.getElementById("conditions-none").hidden = Boolean(name);
  if (!name) { prepared("conditions"); return; }
  heat("conditions", (i, j) => `s = ${short(s[i])}, r_s = ${short(rs[j])}`, found[name], SIDE, {xs: [0, 5], ys: [-2, 1], xLabel: "s", logY: true, diverging: true, about: `${one.name}: ${CONDITIONS[name][0]}, red where violated`});
}

function cell(text, kind = "td") { const made = document.createElement(kind); made.textContent = text; return made; }
function tableRow(cells) { const made = document.createElement("tr"); made.append(...cells); return made; }

function drawEnergies() {
  const found = [];
  for (const atom of BENCH.atoms) {
    const cells = [cell(atom.symbol, "th"), cell(atom.exchange.toFixed(4)), cell(atom.correlation === null ? "" : atom.correlation.toFixed(4))];
    for (const one of BENCH.functionals) {
      const kinds = kindsOf(one);
      if (kinds.includes("x")) cells.push(cell((atomEnergy(one, ["x"], atom) + one.exactExchange*atom.exchange - atom.exchange).toFixed(4)));
      if (kinds.includes("c")) cells.push(cell(atom.correlation === null ? atomEnergy(one, ["c"], atom).toFixed(4) + "*" : (atomEnergy(one, ["c"], atom) - atom.correlation).toFixed(4)));
      for (const kind of kinds.filter(k => k === "xc" || k === "k")) {
        const e = atomEnergy(one, [kind], atom) + (kind === "xc" ? one.exactExchange*atom.exchange : 0);
        const known = kind === "k" ? atom.kinetic : atom.correlation === null ? null : atom.exchange + atom.correlation;
        cells.push(cell(known === null ? e.toFixed(4) + "*" : (e - known).toFixed(4)));
      }
    }
    found.push(tableRow(cells));
  }
  document.querySelector("#energies tbody").replaceChildren(...found);
}

const KCAL = 627.5094740631;

function molecules(f) {
  /* By name: E_x's error [hartree] and atomisation energy [kcal/mol] with f in place of exact exchange; null where f has none. */
  const kinds = kindsOf(f), exchange = kinds.includes("x"), whole = f.whole && (kinds.includes("xc") || (exchange && kinds.includes("c")));
  const of = (one, which) => { const e = evaluate(f, which, 0, one.x)[0]; let sum = 0; for (let i = 0; i < one.m; ++i) sum += one.weights[i]*e[i]; return sum; };
  const total = {}, found = {};
  for (const one of BENCH.species) {
    const x = exchange ? of(one, ["x"]) : 0, rest = whole ? of(one, kinds.filter(k => k !== "x")) : 0;
    const error = x + (f.exactExchange - 1)*one.exchange;
    total[one.name] = one.energy + error + rest;
    if (one.reference !== null) found[one.name] = {exchange: exchange && f.whole ? error : null, atomisation: whole ? KCAL*(one.atoms.reduce((sum, a) => sum + total[a], 0) - total[one.name]) : null, reference: one.reference};
  }
  return found;
}

function drawMolecules() {
  const all = BENCH.functionals.map(molecules), shown = all.map(found => Object.values(found)[0]), head = [cell("molecule", "th"), cell("D, W4-17", "th")], body = [];
  BENCH.functionals.forEach((one, i) => { if (shown[i].exchange !== null) head.push(cell(`${label(one)}ΔE_x`, "th")); if (shown[i].atomisation !== null) head.push(cell(`${label(one)}D`, "th"), cell(`${label(one)}ΔD`, "th")); });
  for (const name of Object.keys(all[0])) {
    const cells = [cell(name, "th"), cell(all[0][name].reference.toFixed(1))];
    for (const found of all) {
      const {exchange, atomisation, reference} = found[name];
      if (exchange !== null) cells.push(cell(exchange.toFixed(4)));
      if (atomisation !== null) cells.push(cell(atomisation.toFixed(1)), cell((atomisation - reference).toFixed(1)));
    }
    body.push(tableRow(cells));
  }
  document.querySelector("#molecules thead").replaceChildren(tableRow(head));
  document.querySelector("#molecules tbody").replaceChildren(...body);
}

function energyHeader() {
  const cells = ["atom", "E_x", "E_c"].map(text => cell(text, "th"));
  for (const one of BENCH.functionals) for (const kind of kindsOf(one)) cells.push(cell(`${label(one)}Δ${{x: "E_x", c: "E_c", xc: "E_xc", k: "T"}[kind]}`, "th"));
  document.querySelector("#energies thead").replaceChildren(tableRow(cells));
}

function drawGrid() {
  /* Errors of an atom's energy on coarser and coarser radial grids: every second, third, ... point. */
  const atom = BENCH.atoms.find(a => a.symbol === state.atom) || BENCH.atoms.find(a => a.symbol === "Ne"), strides = range(1, 12);
  plot("grid", BENCH.functionals.map(one => {
    const fine = atomEnergy(one, kindsOf(one), atom);
    return {x: Float64Array.from(strides.slice(1), k => atom.m/k).reverse(), y: Float64Array.from(strides.slice(1), k => Math.log10(Math.abs(atomEnergy(one, kindsOf(one), atom, k) - fine) + 1e-14)).reverse(), label: one.name, colour: colourOf(one)};
  }), {xLabel: "points", about: "Logarithm of the grid's error"});
}

function measureCost() {
  const lines = BENCH.functionals.map(one => {
    const atom = BENCH.atoms[0], big = Array.from({length: N}, (_, k) => Float64Array.from({length: 20000}, (_, i) => atom.x[k][i % atom.m]));
    const time = order => { const seeds = [big]; evaluate(one, kindsOf(one), order, big, seeds); const start = performance.now(); evaluate(one, kindsOf(one), order, big, seeds); return (performance.now() - start)*50; };
    return `${one.name}: ${one.operations[0]} operations for the energy, ${one.operations[1]} with slopes and their derivative along a direction; here ${time(0).toFixed(0)} and ${time(1).toFixed(0)} ns a point.`;
  });
  document.getElementById("cost").textContent = lines.join(" ");
}

function python() {
  return BENCH.functionals.map(one => {
    const changed = one.parameters.map((p, k) => [p, state.values[one.index][k]]).filter(([p, v]) => v !== p.value), lists = {};
    for (const [p] of changed) lists[p.key] = one.parameters.map((q, k) => [q, state.values[one.index][k]]).filter(([q]) => q.name === p.name);
    const arguments_ = Object.entries(lists).map(([key, all]) => `${key}=${all[0][0].list ? `(${all.map(([, v]) => v).join(", ")}${all.length === 1 ? "," : ""})` : all[0][1]}`);
    return `dftfd.get_functional(${JSON.stringify(one.name)})${arguments_.length ? `.with_parameters(${arguments_.join(", ")})` : ""}`;
  }).join("\n");
}

function remember() {
  const changed = {};
  BENCH.functionals.forEach((one, i) => one.parameters.forEach((p, k) => { if (state.values[i][k] !== p.value) changed[`${i}.${k}`] = state.values[i][k]; }));
  const kept = {rs: state.rs, zeta: state.zeta, alpha: state.alpha, q: state.q, atom: state.atom, condition: state.condition, shown: state.shown, changed};
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
  document.getElementById("python").textContent = `${BENCH.imports}\n\n${python()}`;
}

function recall() {
  if (location.hash.length < 2) return;
  let kept;
  try { kept = JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { return; }
  for (const key of ["rs", "zeta", "alpha", "q"]) if (Number.isFinite(kept[key])) state[key] = kept[key];
  if (PLACES.some(a => a.symbol === kept.atom)) state.atom = kept.atom;
  if (kept.condition in CONDITIONS) state.condition = kept.condition;
  if (BENCH.functionals[kept.shown]) state.shown = kept.shown;
  for (const [place, value] of Object.entries(kept.changed || {})) {
    const [i, k] = place.split(".");
    if (Number.isFinite(value) && state.values[i] && k in state.values[i]) state.values[i][k] = value;
  }
}

let waiting = false, drawn = "";
/* What the sliders of the place do not change is drawn anew with other parameters only, another atom or another width. */
function redrawAll() { drawn = ""; redraw(); }
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const start = performance.now();
    drawEnhancements(); drawSurface(); drawKernel(); drawSmoothness(); drawConditions();
    const now = JSON.stringify([state.values, state.atom]);
    if (now !== drawn) { drawPotential(); drawEnergies(); drawMolecules(); drawGrid(); drawn = now; }
    remember();
    document.body.dataset.milliseconds = performance.now() - start;
  });
}

function slider(parent, text, low, high, get, set, initial) {
  const holder = document.createElement("label"), name = document.createElement("span"), bar = document.createElement("input"), box = document.createElement("input");
  name.textContent = text;
  bar.type = "range"; bar.min = low; bar.max = high; bar.step = (high - low)/400;
  box.type = "number"; box.step = "any";
  bar.setAttribute("aria-label", `${text}, slider`); box.setAttribute("aria-label", `${text}, value`);
  const show = () => { bar.value = get(); box.value = +get().toPrecision(12); holder.classList.toggle("changed", initial !== undefined && get() !== initial); };
  bar.oninput = () => { set(+bar.value); show(); redraw(); };
  box.onchange = () => { if (Number.isFinite(box.valueAsNumber)) set(box.valueAsNumber); show(); redraw(); };
  holder.append(name, bar, box);
  parent.append(holder);
  show();
  return show;
}

function start() {
  recall();
  BENCH.functionals.forEach((one, i) => { one.index = i; });
  const shows = [], places = document.getElementById("place");
  shows.push(slider(places, "r_s [bohr]", 0.1, 10, () => state.rs, v => { state.rs = Math.max(1e-3, v); }));
  shows.push(slider(places, "ζ", 0, 1, () => state.zeta, v => { state.zeta = Math.min(1, Math.max(0, v)); }));
  if (any("tau")) shows.push(slider(places, "α", 0, 5, () => state.alpha, v => { state.alpha = Math.max(0, v); }));
  if (any("lapl")) shows.push(slider(places, "q", -1, 1, () => state.q, v => { state.q = v; }));
  const parameters = document.getElementById("parameters");
  BENCH.functionals.forEach((one, i) => {
    const group = document.createElement("fieldset"), title = document.createElement("legend");
    title.textContent = one.name;
    group.append(title);
    one.parameters.forEach((p, k) => {
      const reach = p.value ? Math.abs(p.value) : 1;
      shows.push(slider(group, p.label, p.value - reach, p.value + reach, () => state.values[i][k], v => { state.values[i][k] = v; }, p.value));
    });
    if (!one.parameters.length) group.append("no parameter that is a real number outside exponents");
    parameters.append(group);
  });
  document.getElementById("reset").onclick = () => { state.values = BENCH.functionals.map(one => one.parameters.map(p => p.value)); shows.forEach(show => show()); redraw(); };
  const choose = (id, options, get, set) => {
    const box = document.getElementById(id);
    box.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === String(get()))));
    box.onchange = () => { set(box.value); redraw(); };
  };
  choose("atom", PLACES.map(a => [a.symbol, BENCH.bonds.includes(a) ? `${a.symbol} along the bond` : a.symbol]), () => state.atom, v => { state.atom = v; });
  choose("shown", BENCH.functionals.map((one, i) => [String(i), one.name]), () => state.shown, v => { state.shown = +v; });
  document.getElementById("shown-label").hidden = BENCH.functionals.length < 2;
  for (const button of document.querySelectorAll("button[data-copy]")) button.onclick = () => {
    const text = button.dataset.copy === "link" ? location.href : document.getElementById(button.dataset.copy).textContent;
    navigator.clipboard.writeText(text).then(() => { button.textContent = "copied"; }, () => { button.textContent = "cannot copy"; });
  };
  for (const canvas of document.querySelectorAll("canvas")) {
    const out = document.getElementById(`${canvas.id}-value`);
    canvas.onmousemove = event => { out.textContent = canvas.readout ? canvas.readout(event.offsetX, event.offsetY) : ""; };
    canvas.onmouseleave = () => { out.textContent = ""; };
  }
  energyHeader();
  window.onresize = redrawAll;
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  redraw();
  setTimeout(measureCost, 300);
}
if (typeof document !== "undefined") start();
else BENCH.functionals.forEach((one, i) => { one.index = i; });
