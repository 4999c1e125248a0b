/* Draws a laid-out graph on a canvas. */

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

/** The colors of the theme. */
const COLORS = {};

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ['paper', 'sheet', 'ink', 'quiet', 'line', 'edge', 'accent', 'scope', 'scope-line'];
  for (const name of names) COLORS[name] = style.getPropertyValue(`--${name}`).trim();
  COLORS.kinds = KINDS.map((_, kind) => style.getPropertyValue(`--k${kind}`).trim());
}

const kindColor = kind => kind < 0 ? COLORS.quiet : COLORS.kinds[kind];

/** Sizes a canvas for the screen, and returns its context and its size in CSS pixels. */
function prepareCanvas(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: w, clientHeight: h } = canvas;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = COLORS.paper;
  context.fillRect(0, 0, w, h);
  return { context, w, h, scale };
}

const widths = new Map();

function textWidth(text, font) {
  const key = `${font}\n${text}`;
  if (!widths.has(key)) {
    const context = document.createElement('canvas').getContext('2d');
    context.font = font;
    widths.set(key, context.measureText(text).width);
  }
  return widths.get(key);
}

const LABEL = `600 13px ${FONT}`;
const SMALL = `11px ${FONT}`;

/** Shortens a text in the middle. */
const shortened = (text, most) =>
  text.length <= most ? text : `${text.slice(0, most / 2)}…${text.slice(1 - most / 2)}`;

/** The size of a node, or of a closed scope. */
function measure(item) {
  if (item.isGroup) {
    const name = shortened(item.name, 34);
    return { text: name, w: Math.max(120, textWidth(name, LABEL) + 34), h: 52 };
  }
  const text = shortened(item.label, 30);
  return { text, w: Math.max(58, textWidth(text, LABEL) + 26), h: 28 };
}

/** The sizes of a tensor's axes, without its element type. */
function shapeText(type) {
  const start = type.indexOf('[');
  return start < 0 ? '' : type.slice(start + 1, -1).replaceAll(', ', ' × ');
}

function tracePath(context, { points, isBack, isFar }) {
  const [first, ...rest] = points;
  context.moveTo(...first);
  let [x, y] = first;
  for (const [a, b] of rest) {
    const middle = (b - y) / 2;
    if (isBack || isFar) {
      context.bezierCurveTo(x, y + 40, a, b - 40, a, b);
    } else if (a === x) {
      context.lineTo(a, b);
    } else {
      context.bezierCurveTo(x, y + middle, a, b - middle, a, b);
    }
    [x, y] = [a, b];
  }
}

/** Draws the part of a drawing that is inside of the view. `marked` is the selected item. */
function drawGraph(canvas, drawing, view, marked) {
  const { context, w, h, scale } = prepareCanvas(canvas);
  const zoom = view.zoom;
  context.setTransform(scale * zoom, 0, 0, scale * zoom, scale * view.x, scale * view.y);
  const seen = [-view.x / zoom, -view.y / zoom, (w - view.x) / zoom, (h - view.y) / zoom];
  const isSeen = (left, top, right, bottom) =>
    right >= seen[0] && left <= seen[2] && bottom >= seen[1] && top <= seen[3];
  for (const group of drawing.groups) {
    const { left, top } = group;
    if (isSeen(left, top, left + group.w, top + group.h)) drawScope(context, group, zoom, marked);
  }
  drawEdges(context, drawing, isSeen, zoom, marked);
  for (const item of drawing.nodes) {
    const { left, top } = item;
    if (!isSeen(left, top, left + item.w, top + item.h)) continue;
    if (item.isGroup) drawClosed(context, item, zoom, item === marked);
    else drawNode(context, item, zoom, item === marked);
  }
}

function drawScope(context, group, zoom, marked) {
  context.beginPath();
  context.roundRect(group.left, group.top, group.w, group.h, 10);
  context.fillStyle = COLORS.scope;
  context.fill();
  context.lineWidth = (group === marked ? 2 : 1) / Math.min(1, zoom);
  context.strokeStyle = group === marked ? COLORS.accent : COLORS['scope-line'];
  context.stroke();
  if (zoom < 0.25) return;
  context.font = SMALL;
  context.fillStyle = COLORS.quiet;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillText(`▾ ${shortened(group.name, 60)}`, group.left + 12, group.top + 16);
}

function drawEdges(context, drawing, isSeen, zoom, marked) {
  const seen = drawing.edges.filter(edge => isSeen(...edge.box));
  context.lineWidth = Math.max(1.1, 0.7 / zoom);
  context.strokeStyle = COLORS.edge;
  for (const isFaint of [true, false]) {
    context.beginPath();
    context.globalAlpha = isFaint ? 0.3 : 1;
    for (const edge of seen) if (isFaint === (edge.isFar || edge.isBack)) tracePath(context, edge);
    context.stroke();
  }
  const near = marked ? seen.filter(({ edge }) => edge.from === marked || edge.to === marked) : [];
  context.beginPath();
  context.lineWidth = Math.max(2, 1.2 / zoom);
  context.strokeStyle = COLORS.accent;
  for (const edge of near) tracePath(context, edge);
  context.stroke();
  if (zoom > 0.4) drawArrows(context, seen);
  if (zoom > 0.62) drawShapes(context, seen);
}

function drawArrows(context, edges) {
  context.fillStyle = COLORS.edge;
  for (const { edge, points } of edges) {
    if (edge.to.isBorder) continue;
    const [x, y] = points[points.length - 1];
    context.beginPath();
    context.moveTo(x - 3.5, y - 7);
    context.lineTo(x + 3.5, y - 7);
    context.lineTo(x, y - 0.5);
    context.fill();
  }
}

function drawShapes(context, edges) {
  context.font = SMALL;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  const values = new Map();
  for (const { edge, points } of edges) {
    if (edge.from.isBorder) continue;
    const of = values.get(edge.from) ?? { point: points[0], all: new Set() };
    of.all.add(edge.value);
    values.set(edge.from, of);
  }
  context.fillStyle = COLORS.quiet;
  for (const { point: [x, y], all } of values.values()) {
    const [first] = all;
    const more = all.size > 1 ? `  and ${all.size - 1} more` : '';
    context.fillText(shortened(shapeText(first.type), 40) + more, x + 7, y + 11);
  }
}

function drawNode(context, node, zoom, isMarked) {
  const { left, top, w, h } = node;
  const color = kindColor(node.kind);
  context.beginPath();
  context.roundRect(left, top, w, h, node.port ? h / 2 : 6);
  context.fillStyle = COLORS.sheet;
  context.fill();
  context.globalAlpha = zoom < 0.32 ? 0.85 : node.fate < 0 ? 0.06 : 0.15;
  context.fillStyle = color;
  context.fill();
  context.globalAlpha = node.fate < 0 ? 0.55 : 1;
  context.lineWidth = isMarked ? 3 : 1.3;
  context.strokeStyle = isMarked ? COLORS.accent : color;
  if (node.fate < 0) context.setLineDash([4, 3]);
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
  if (zoom < 0.32) return;
  context.font = node.port ? `13px ${FONT}` : LABEL;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillStyle = node.fate < 0 ? COLORS.quiet : COLORS.ink;
  context.fillText(node.text, left + w / 2, top + h / 2 + 1);
}

function drawClosed(context, group, zoom, isMarked) {
  const { left, top, w, h } = group;
  context.save();
  context.beginPath();
  context.roundRect(left, top, w, h, 8);
  context.fillStyle = COLORS.sheet;
  context.fill();
  context.lineWidth = isMarked ? 3 : 1.3;
  context.strokeStyle = isMarked ? COLORS.accent : COLORS.edge;
  context.stroke();
  context.clip();
  const all = group.kinds.reduce((sum, count) => sum + count, 0) || 1;
  const thick = zoom < 0.32 ? h : 6;
  let x = left;
  group.kinds.forEach((count, kind) => {
    context.fillStyle = COLORS.kinds[kind];
    context.fillRect(x, top + h - thick, w * count / all, thick);
    x += w * count / all;
  });
  context.restore();
  if (zoom < 0.32) return;
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  context.font = LABEL;
  context.fillStyle = COLORS.ink;
  context.fillText(group.text, left + w / 2, top + 17);
  context.font = SMALL;
  context.fillStyle = COLORS.quiet;
  context.fillText(`▸ ${grouped(group.count)} nodes`, left + w / 2, top + 34);
}
