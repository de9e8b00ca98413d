/* Molecules and isosurfaces on a canvas, drawn by the processor: no WebGL, no network. SCENES: scenes by name. */
"use strict";

/* ---- numbers */

const HALF = Float32Array.from({length: 65536}, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
  return sign*(exponent ? (1 + fraction/1024)*2**(exponent - 15) : fraction*2**-24);
});

function box(field) {
  /* The field's values, z fastest, decoded once. */
  if (!field.decoded) {
    const bytes = Uint8Array.from(atob(field.values), c => c.charCodeAt(0));
    field.decoded = Float32Array.from(new Uint16Array(bytes.buffer), bits => HALF[bits]);
  }
  return field.decoded;
}

function valueAt(field, x, y, z) {
  /* Linear between the points of the box; zero outside. */
  const v = box(field), [nx, ny, nz] = field.counts, [ox, oy, oz] = field.origin, h = field.step;
  const u = (x - ox)/h, w = (y - oy)/h, t = (z - oz)/h, i = Math.floor(u), j = Math.floor(w), k = Math.floor(t);
  if (!(i >= 0 && j >= 0 && k >= 0 && i < nx - 1 && j < ny - 1 && k < nz - 1)) return 0;
  const a = u - i, b = w - j, c = t - k, p = (i*ny + j)*nz + k, q = p + ny*nz;
  const line = s => v[s]*(1 - c) + v[s + 1]*c, plane = s => line(s)*(1 - b) + line(s + nz)*b;
  return plane(p)*(1 - a) + plane(q)*a;
}

/* Six tetrahedra around the diagonal from corner 0 to 7 fill a cell; a corner's bits are its steps along x, y, z. */
const TETRAHEDRA = [[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]];

function surface(field, level) {
  /* Triangles of field = level by marching tetrahedra: {position, normal}, nine numbers each, seen from low values. */
  const v = box(field), [nx, ny, nz] = field.counts, h = field.step, position = [], normal = [];
  const steps = [0, 1, 2, 3, 4, 5, 6, 7].map(c => (c & 1)*ny*nz + (c >> 1 & 1)*nz + (c >> 2 & 1));
  const slope = (p, stride, first, last) => (last ? v[p] : v[p + stride]) - (first ? v[p] : v[p - stride]);
  const point = (cell, i, j, k, a, b) => {
    const p = cell + steps[a], q = cell + steps[b], t = (level - v[p])/(v[q] - v[p]);
    const at = (c, n) => [i + (c & 1), j + (c >> 1 & 1), k + (c >> 2 & 1)][n], to = n => at(a, n) + t*(at(b, n) - at(a, n));
    const gradient = (s, c) => [slope(s, ny*nz, !at(c, 0), at(c, 0) === nx - 1), slope(s, nz, !at(c, 1), at(c, 1) === ny - 1), slope(s, 1, !at(c, 2), at(c, 2) === nz - 1)];
    const g = gradient(p, a), f = gradient(q, b), m = g.map((w, n) => -(w + t*(f[n] - w))), size = Math.hypot(...m) || 1;
    return [[0, 1, 2].map(n => field.origin[n] + h*to(n)), m.map(w => w/size)];
  };
  const triangle = (a, b, c) => {
    const face = cross(less(b[0], a[0]), less(c[0], a[0]));
    const [s, t] = dot(face, a[1]) + dot(face, b[1]) + dot(face, c[1]) < 0 ? [c, b] : [b, c];
    for (const [p, n] of [a, s, t]) { position.push(...p); normal.push(...n); }
  };
  for (let i = 0; i < nx - 1; ++i) for (let j = 0; j < ny - 1; ++j) for (let k = 0; k < nz - 1; ++k) {
    const cell = (i*ny + j)*nz + k;
    let above = 0;
    for (let c = 0; c < 8; ++c) if (v[cell + steps[c]] > level) above |= 1 << c;
    if (above === 0 || above === 255) continue;
    for (const corners of TETRAHEDRA) {
      const high = corners.filter(c => above >> c & 1), low = corners.filter(c => !(above >> c & 1));
      if (!high.length || !low.length) continue;
      const cut = (a, b) => point(cell, i, j, k, a, b);
      if (high.length === 2) {
        const [a, b, c, d] = [cut(high[0], low[0]), cut(high[0], low[1]), cut(high[1], low[1]), cut(high[1], low[0])];
        triangle(a, b, c); triangle(a, c, d);
      } else {
        const [one, others] = high.length === 1 ? [high[0], low] : [low[0], high];
        triangle(...others.map(other => cut(one, other)));
      }
    }
  }
  return {position: Float32Array.from(position), normal: Float32Array.from(normal)};
}

const less = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const dot = (a, b) => a[0]*b[0] + a[1]*b[1] + a[2]*b[2];
const cross = (a, b) => [a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]];

function volume(mesh) {
  /* Of what a closed surface holds, by the divergence theorem. */
  let sum = 0;
  for (let p = 0; p < mesh.position.length; p += 9) {
    const [a, b, c] = [0, 3, 6].map(s => mesh.position.subarray(p + s, p + s + 3));
    sum += dot(a, cross(b, c))/6;
  }
  return sum;
}

/* ---- what is seen: meshes of {position, normal, colour}, colours one for all or three a triangle */

const ELEMENTS = {
  H: [240, 240, 240], B: [255, 181, 181], C: [110, 110, 110], N: [72, 92, 230], O: [230, 50, 40], F: [120, 200, 70],
  Si: [220, 185, 150], P: [255, 128, 0], S: [235, 205, 40], Cl: [60, 200, 60], Br: [150, 50, 40], I: [140, 40, 150],
  Fe: [200, 110, 60], Cu: [190, 120, 60], Zn: [125, 128, 176], Ni: [80, 190, 80], Na: [160, 90, 220], Mg: [120, 220, 40],
};
const elementColour = symbol => ELEMENTS[symbol] || [185, 150, 205];
const POSITIVE = [47, 111, 179], NEGATIVE = [209, 96, 61];
const mixed = (a, b, t) => a.map((v, n) => v + (b[n] - v)*t);
/* Red for electrons' side, through white, to blue for the nuclei's. */
const tinted = t => t < 0 ? mixed([245, 245, 245], [200, 40, 40], Math.min(1, -t)) : mixed([245, 245, 245], [40, 70, 200], Math.min(1, t));

function bond(a, b, sides = 10, radius = 0.18) {
  /* A cylinder from the middle of the bond to atom a. */
  const axis = less(b, a), half = [0, 1, 2].map(n => a[n] + axis[n]/2), e = Math.abs(axis[0]) < 0.6*Math.hypot(...axis) ? [1, 0, 0] : [0, 1, 0];
  const unit = w => w.map(v => v/Math.hypot(...w)), u = unit(cross(axis, e)), w = unit(cross(axis, u)), position = [], normal = [];
  const ring = s => [0, 1, 2].map(n => Math.cos(2*Math.PI*s/sides)*u[n] + Math.sin(2*Math.PI*s/sides)*w[n]);
  for (let s = 0; s < sides; ++s) {
    const [n1, n2] = [ring(s), ring(s + 1)], at = (c, n) => c.map((v, k) => v + radius*n[k]);
    for (const [c, n] of [[a, n1], [half, n1], [half, n2], [a, n1], [half, n2], [a, n2]]) { position.push(...at(c, n)); normal.push(...n); }
  }
  return {position: Float32Array.from(position), normal: Float32Array.from(normal)};
}

class View {
  /* One scene on one canvas: turned by the pointer or the arrow keys, nearer and farther by the wheel, + and -. */
  constructor(canvas, scene) {
    Object.assign(this, {canvas, scene, size: [canvas.width, canvas.height], zoom: 1, turn: scene.turn || [[1, 0, 0], [0, 1, 0], [0, 0, 1]], meshes: [], names: false});
    const at = scene.atoms.map(a => a.at);
    this.centre = [0, 1, 2].map(n => at.reduce((sum, p) => sum + p[n], 0)/(at.length || 1));
    this.reach = Math.max(2.5, ...at.map(p => Math.hypot(...less(p, this.centre)))) + scene.margin;
    this.displace();
    this.rotate(0.4, 0.3);
    this.listen();
  }

  displace(mode, amplitude) {
    /* The atoms, moved along a mode. */
    const moved = (at, i) => mode ? at.map((x, n) => x + amplitude*mode[i][n]) : at;
    this.atoms = this.scene.atoms.map((atom, i) => ({...atom, at: moved(atom.at, i)}));
    const half = (a, b) => ({...bond(this.atoms[a].at, this.atoms[b].at), colour: elementColour(this.atoms[a].symbol)});
    this.bonds = this.scene.bonds.flatMap(([i, j]) => [half(i, j), half(j, i)]);
  }

  rotate(a, b) {
    /* Around the screen's upright and level axes. */
    const c = Math.cos(a), s = Math.sin(a), d = Math.cos(b), t = Math.sin(b), [x, y, z] = this.turn;
    const x1 = x.map((v, n) => c*v + s*z[n]), z1 = z.map((v, n) => c*v - s*x[n]);
    this.turn = [x1, y.map((v, n) => d*v - t*z1[n]), y.map((v, n) => t*v + d*z1[n])];
  }

  listen() {
    const {canvas} = this, moved = () => this.later();
    let from = null;
    canvas.onpointerdown = e => { from = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); };
    canvas.onpointerup = canvas.onpointercancel = () => { from = null; };
    canvas.onpointermove = e => { if (from) { this.rotate((e.clientX - from[0])/90, (e.clientY - from[1])/90); from = [e.clientX, e.clientY]; moved(); } };
    canvas.onwheel = e => { e.preventDefault(); this.zoom *= Math.exp(-e.deltaY/600); moved(); };
    canvas.onkeydown = e => {
      const turns = {ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, -0.15], ArrowDown: [0, 0.15]}, nearer = {"+": 1.15, "=": 1.15, "-": 1/1.15};
      if (turns[e.key]) this.rotate(...turns[e.key]); else if (nearer[e.key]) this.zoom *= nearer[e.key]; else return;
      e.preventDefault(); moved();
    };
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const {canvas} = this, ratio = Math.min(2, window.devicePixelRatio || 1), start = performance.now();
    const width = Math.round((canvas.clientWidth || this.size[0])*ratio), height = Math.round((canvas.clientHeight || this.size[1])*ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const pen = canvas.getContext("2d"), image = pen.createImageData(width, height);
    Object.assign(this, {width, height, scale: Math.min(width, height)/2/this.reach*this.zoom, pixels: image.data, depth: new Float32Array(width*height).fill(-1e9)});
    for (const mesh of this.bonds) this.triangles(mesh, 1);
    this.atoms.forEach(atom => this.ball(atom));
    for (const mesh of this.meshes) this.triangles(mesh, mesh.alpha);
    pen.putImageData(image, 0, 0);
    if (this.names) this.write(pen, ratio);
    canvas.dataset.milliseconds = performance.now() - start;
  }

  place(p) {
    const q = less(p, this.centre), [x, y, z] = this.turn.map(row => dot(row, q));
    return [this.width/2 + this.scale*x, this.height/2 - this.scale*y, this.scale*z];
  }

  shade(i, colour, light, alpha) {
    const p = 4*i, pixels = this.pixels, bright = 0.35 + 0.65*light, shine = light > 0.9 ? (light - 0.9)*700 : 0, under = pixels[p + 3]/255, over = alpha + under*(1 - alpha);
    for (let n = 0; n < 3; ++n) pixels[p + n] = (Math.min(255, colour[n]*bright + shine)*alpha + pixels[p + n]*under*(1 - alpha))/over;
    pixels[p + 3] = 255*over;
  }

  ball({symbol, at, radius}) {
    const [X, Y, Z] = this.place(at), r = radius*this.scale, colour = elementColour(symbol), {width, height} = this;
    for (let y = Math.max(0, Math.ceil(Y - r)); y <= Math.min(height - 1, Y + r); ++y) for (let x = Math.max(0, Math.ceil(X - r)); x <= Math.min(width - 1, X + r); ++x) {
      const a = (x - X)/r, b = (Y - y)/r, c2 = 1 - a*a - b*b, i = y*width + x;
      if (c2 < 0) continue;
      const c = Math.sqrt(c2);
      if (Z + r*c < this.depth[i]) continue;
      this.depth[i] = Z + r*c;
      this.shade(i, colour, Math.max(0, LIGHT[0]*a + LIGHT[1]*b + LIGHT[2]*c), 1);
    }
  }

  triangles({position, normal, colour, colours}, alpha) {
    /* Opaque ones leave their depth behind; the others are drawn from the back to the front. */
    const count = position.length/9, flat = new Float32Array(3*count*4), [rx, ry, rz] = this.turn, {width, height, scale} = this, order = new Uint32Array(count), deep = new Float32Array(count);
    for (let v = 0; v < 3*count; ++v) {
      const p = 3*v, x = position[p] - this.centre[0], y = position[p + 1] - this.centre[1], z = position[p + 2] - this.centre[2];
      flat[4*v] = width/2 + scale*(rx[0]*x + rx[1]*y + rx[2]*z);
      flat[4*v + 1] = height/2 - scale*(ry[0]*x + ry[1]*y + ry[2]*z);
      flat[4*v + 2] = scale*(rz[0]*x + rz[1]*y + rz[2]*z);
      const a = normal[p], b = normal[p + 1], c = normal[p + 2], nz = rz[0]*a + rz[1]*b + rz[2]*c;
      const light = LIGHT[0]*(rx[0]*a + rx[1]*b + rx[2]*c) + LIGHT[1]*(ry[0]*a + ry[1]*b + ry[2]*c) + LIGHT[2]*nz;
      flat[4*v + 3] = Math.max(0, nz < 0 ? -light : light);
    }
    for (let t = 0; t < count; ++t) { order[t] = t; deep[t] = flat[12*t + 2] + flat[12*t + 6] + flat[12*t + 10]; }
    if (alpha < 1) order.sort((a, b) => deep[a] - deep[b]);
    for (const t of order) this.triangle(flat, 12*t, colours ? colours[t] : colour, alpha);
  }

  triangle(f, o, colour, alpha) {
    const x0 = f[o], y0 = f[o + 1], x1 = f[o + 4], y1 = f[o + 5], x2 = f[o + 8], y2 = f[o + 9], {width, height, depth} = this;
    const area = (x1 - x0)*(y2 - y0) - (x2 - x0)*(y1 - y0);
    if (!area) return;
    const top = Math.max(0, Math.ceil(Math.min(y0, y1, y2))), bottom = Math.min(height - 1, Math.floor(Math.max(y0, y1, y2)));
    for (let y = top; y <= bottom; ++y) {
      /* Left and right ends of this row, of half-open edges: triangles side by side share no pixel. */
      let left = Infinity, right = -Infinity;
      for (const [ax, ay, bx, by] of [[x0, y0, x1, y1], [x1, y1, x2, y2], [x2, y2, x0, y0]]) {
        if ((ay <= y) === (by <= y)) continue;
        const x = ay < by ? ax + (y - ay)/(by - ay)*(bx - ax) : bx + (y - by)/(ay - by)*(ax - bx);
        if (x < left) left = x;
        if (x > right) right = x;
      }
      for (let x = Math.max(0, Math.ceil(left)), last = Math.min(width, right); x < last; ++x) {
        const b = ((x - x0)*(y2 - y0) - (x2 - x0)*(y - y0))/area, c = ((x1 - x0)*(y - y0) - (x - x0)*(y1 - y0))/area, a = 1 - b - c, i = y*width + x;
        const z = a*f[o + 2] + b*f[o + 6] + c*f[o + 10];
        if (z < depth[i]) continue;
        if (alpha === 1) depth[i] = z;
        this.shade(i, colour, a*f[o + 3] + b*f[o + 7] + c*f[o + 11], alpha);
      }
    }
  }

  write(pen, ratio) {
    pen.font = `${13*ratio}px system-ui, sans-serif`; pen.textAlign = "center"; pen.textBaseline = "middle";
    this.atoms.forEach(({symbol, at}, i) => {
      const [x, y] = this.place(at);
      pen.lineWidth = 3*ratio; pen.strokeStyle = "#fff"; pen.fillStyle = "#111";
      pen.strokeText(symbol + (i + 1), x, y); pen.fillText(symbol + (i + 1), x, y);
    });
  }

  show(field, level) {
    /* The surface at a level, both signs of a field that has them; in the colours of another field where it says so. */
    this.meshes = !field ? [] : (field.signed ? [level, -level] : [level]).map(l => {
      const mesh = surface(field, l), tint = field.tint && this.scene.fields.find(f => f.name === field.tint);
      mesh.colour = l < 0 ? NEGATIVE : POSITIVE; mesh.alpha = 0.62; mesh.level = l;
      if (tint) Object.assign(mesh, colouredBy(tint, mesh));
      return mesh;
    });
    this.draw();
  }
}
const LIGHT = [0.3, 0.45, 0.84];

function colouredBy(tint, {position}) {
  /* Colours of triangles by a field at their first corner; `range` is where its colours end on either side. */
  const values = Float32Array.from({length: position.length/9}, (_, t) => valueAt(tint, ...position.subarray(9*t, 9*t + 3)));
  const range = values.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
  return {alpha: 0.85, range, lowest: values.reduce((a, b) => Math.min(a, b), Infinity), highest: values.reduce((a, b) => Math.max(a, b), -Infinity), colours: Array.from(values, v => tinted(v/range))};
}

/* ---- controls */

const few = v => String(+v.toPrecision(3));

function start(figure) {
  const scene = SCENES[figure.dataset.scene], canvas = figure.querySelector("canvas"), view = new View(canvas, scene);
  const pick = figure.querySelector("select"), bar = figure.querySelector("input[type=range]"), names = figure.querySelector("input[type=checkbox]"), said = figure.querySelector("output");
  figure.view = view;
  if (names) {
    names.onchange = () => { view.names = names.checked; view.draw(); };
    window.addEventListener("resize", () => view.later());
  }
  if (scene.modes) vibrate(view, scene.modes, said);
  if (!pick) { canvas.setAttribute("aria-label", scene.words); view.draw(); return; }
  const chosen = () => scene.fields.find(f => f.name === pick.value);
  const level = field => field.level*30**((bar.value - 500)/500);
  const show = () => {
    const field = chosen();
    bar.disabled = !field;
    view.show(field, field && level(field));
    const {meshes} = view, seen = meshes.some(m => m.position.length);
    const colours = meshes[0] && meshes[0].range && seen ? `; potential on it ${few(meshes[0].lowest)} (red) to ${few(meshes[0].highest)} (blue) hartree/e` : "";
    said.textContent = field ? `${field.label} = ${field.signed ? "±" : ""}${few(level(field))} ${field.unit}${seen ? "" : ": nowhere in the box"}${colours}` : "";
    canvas.setAttribute("aria-label", `${scene.words}${field ? `; surface ${said.textContent}` : ""}`);
  };
  pick.onchange = () => { bar.value = 500; show(); };
  bar.oninput = show;
  show();
}

const PERIOD = 1200;

function vibrate(view, modes, said) {
  /* Buttons with data-mode start and stop the motion along it: a period in PERIOD milliseconds, whatever its frequency. */
  const buttons = [...document.querySelectorAll("[data-mode]")];
  let moving = null;
  const step = time => {
    if (moving === null) return;
    view.displace(modes[moving], Math.sin(2*Math.PI*time/PERIOD));
    view.draw();
    requestAnimationFrame(step);
  };
  const choose = chosen => {
    const before = moving;
    moving = chosen;
    buttons.forEach(b => b.setAttribute("aria-pressed", String(+b.dataset.mode === moving)));
    said.textContent = moving === null ? "" : `mode ${moving + 1}`;
    if (moving === null) { view.displace(); view.draw(); } else if (before === null) requestAnimationFrame(step);
  };
  for (const b of buttons) b.onclick = () => choose(+b.dataset.mode === moving ? null : +b.dataset.mode);
}
if (typeof document !== "undefined") for (const figure of document.querySelectorAll("[data-scene]")) start(figure);
