/* The view of the graph: panning, zooming, folding, selection, details. */

/** The most nodes and closed scopes that are shown at first. */
const FIRST = 240;

const graphCanvas = document.getElementById('graph');
const details = document.getElementById('details');

const graphView = {
  which: 'after',
  drawing: null,
  marked: null,
  view: { x: 0, y: 0, zoom: 1 },
};

const currentGraph = () => GRAPHS[graphView.which];

/** Opens scopes level by level, as long as few items are shown. */
function openFirst(graph) {
  let level = [graph.root];
  let shown = graph.root.children.length;
  while (level.length) {
    const inner = level.flatMap(group => group.children.filter(child => child.isGroup));
    const more = inner.reduce((sum, group) => sum + group.children.length - 1, 0);
    if (shown + more > FIRST) break;
    shown += more;
    inner.forEach(group => { group.open = true; });
    level = inner;
  }
}

function showGraph(which) {
  graphView.which = which;
  graphView.marked = null;
  const graph = currentGraph();
  if (!graph.isOpened) {
    openFirst(graph);
    graph.isOpened = true;
  }
  relayOut();
  fit();
  showDetails(null);
  for (const button of document.querySelectorAll('.switch button')) {
    button.setAttribute('aria-pressed', String(button.dataset.graph === which));
  }
}

function relayOut() {
  graphView.drawing = layOut(currentGraph(), measure);
}

let isDrawing = false;

function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    if (graphCanvas.clientWidth > 0 && graphView.drawing) {
      drawGraph(graphCanvas, graphView.drawing, graphView.view, graphView.marked);
    }
  });
}

/** Shows the whole graph, or its upper part if it is long: text stays readable. */
function fit(isWhole = false) {
  const { w, h } = graphView.drawing;
  const { clientWidth: width, clientHeight: height } = graphCanvas;
  const whole = Math.min((width - 60) / w, (height - 60) / h, 1.2);
  const wide = Math.min((width - 60) / w, 1.2);
  const zoom = isWhole ? whole : Math.max(whole, Math.min(wide, 0.8));
  const y = h * zoom > height ? 30 : (height - h * zoom) / 2;
  graphView.view = { x: (width - w * zoom) / 2, y, zoom };
  redraw();
}

function zoomAt(x, y, factor) {
  const { view } = graphView;
  const zoom = Math.min(3, Math.max(0.01, view.zoom * factor));
  view.x = x - (x - view.x) * zoom / view.zoom;
  view.y = y - (y - view.y) * zoom / view.zoom;
  view.zoom = zoom;
  redraw();
}

const zoomBy = factor => zoomAt(graphCanvas.clientWidth / 2, graphCanvas.clientHeight / 2, factor);

/** Returns the node, closed scope or head of an open scope at a point of the canvas. */
function itemAt(x, y) {
  const { view, drawing } = graphView;
  const [a, b] = [(x - view.x) / view.zoom, (y - view.y) / view.zoom];
  const has = item => a >= item.left && a <= item.left + item.w && b >= item.top && b <= item.top + item.h;
  const node = drawing.nodes.find(has);
  if (node) return node;
  return drawing.groups.filter(has).reverse().find(group => b <= group.top + HEAD) ?? null;
}

/** Folds or unfolds a scope, and keeps it where it is on the screen. */
function toggle(group) {
  const before = [group.left, group.top];
  group.open = !group.open;
  relayOut();
  const { view } = graphView;
  view.x += (before[0] - group.left) * view.zoom;
  view.y += (before[1] - group.top) * view.zoom;
  redraw();
}

/** Opens or closes every scope. */
function toggleAll(open) {
  const visit = group => group.children.filter(child => child.isGroup).forEach(child => {
    child.open = open;
    visit(child);
  });
  visit(currentGraph().root);
  relayOut();
  fit();
}

/** Selects an item. */
function mark(item, isCentered = false) {
  graphView.marked = item;
  showDetails(item);
  if (item && isCentered) reveal(item);
  if (item) announce(item.isGroup ? `Scope ${item.name}, ${item.count} nodes` : `${item.label} ${item.name}`);
  redraw();
}

/** Opens the scopes around an item, and moves it to the middle. */
function reveal(item) {
  let isHidden = false;
  for (let group = item.parent; group; group = group.parent) {
    isHidden ||= !group.open;
    group.open = true;
  }
  if (isHidden) relayOut();
  const { view } = graphView;
  view.zoom = Math.max(view.zoom, 0.8);
  view.x = graphCanvas.clientWidth / 2 - (item.left + item.w / 2) * view.zoom;
  view.y = graphCanvas.clientHeight / 2 - (item.top + item.h / 2) * view.zoom;
  redraw();
}

/** Shows a node of one of the graphs. */
function goTo(which, node) {
  showView('graph');
  if (graphView.which !== which) showGraph(which);
  mark(node, true);
}

/** Moves the selection along an edge (`up`, `down`) or to a neighbor in the layer. */
function step(direction) {
  const { marked, drawing } = graphView;
  if (!marked) {
    mark(drawing.nodes[0], true);
    return;
  }
  const center = item => [item.left + item.w / 2, item.top + item.h / 2];
  const [x, y] = center(marked);
  const shown = item => chain(item).at(-1);
  const near = (key, from) => (marked.isGroup ? [] : marked[key])
    .flatMap(value => from(value)).filter(Boolean).map(shown).filter(item => item !== marked);
  let candidates = [];
  if (direction === 'up') candidates = near('inputs', value => [value.producer]);
  if (direction === 'down') candidates = near('outputs', value => value.readers);
  if (candidates.length === 0) {
    candidates = drawing.nodes.filter(item => {
      const [a, b] = center(item);
      if (direction === 'up') return b < y - 5;
      if (direction === 'down') return b > y + 5;
      return Math.abs(b - y) < 30 && (direction === 'left' ? a < x : a > x);
    });
  }
  const distance = item => {
    const [a, b] = center(item);
    return Math.hypot(a - x, b - y);
  };
  candidates.sort((a, b) => distance(a) - distance(b));
  if (candidates.length) mark(candidates[0], true);
}

/** Shows the details of an item beside the graph. */
function showDetails(item) {
  details.hidden = !item;
  details.replaceChildren();
  if (!item) return;
  if (item.isGroup) {
    details.append(
      element('h2', { textContent: item.name }),
      element('p', { textContent: `${grouped(item.count)} nodes` }),
      element('h3', { textContent: 'Operators' }),
      element('ul', {}, ...kindRows(item)),
      element('h3', {}, button(item.open ? 'Fold (Enter)' : 'Unfold (Enter)', () => toggle(item))),
    );
    return;
  }
  details.append(...nodeDetails(item));
}

const button = (text, act) => element('button', { className: 'link', textContent: text, onclick: act });

const dot = kind => element('span', { className: 'dot', style: `background: var(--k${kind})` });

function kindRows(group) {
  const rows = group.kinds.map((count, kind) => ({ count, kind })).filter(({ count }) => count > 0);
  rows.sort((a, b) => b.count - a.count);
  return rows.map(({ count, kind }) => element('li', {}, dot(kind), `${grouped(count)} ${KINDS[kind]}`));
}

function nodeDetails(node) {
  const { which } = graphView;
  const title = node.port ? `${node.port} ${node.name}` : node.label;
  const parts = [element('h2', { textContent: title })];
  if (!node.port) parts.push(element('p', { textContent: [...node.path, node.name].join(' / ') }));
  if (node.attributes) parts.push(part('Attributes', element('code', { textContent: node.attributes })));
  const linked = (other, text) => other ? button(text, () => mark(other, true)) : text;
  const row = (value, others) => element('li', {},
    others.length ? linked(others[0], value.name) : value.name, ' ',
    element('small', { textContent: value.type + (value.constant ? ', constant' : '') }),
    rangePart(DATA.ranges?.[value.name]));
  if (node.inputs.length) {
    const rows = node.inputs.map(value => row(value, value.producer ? [value.producer] : []));
    parts.push(part('Inputs', element('ul', {}, ...rows)));
  }
  if (node.outputs.length) {
    parts.push(part('Outputs', element('ul', {}, ...node.outputs.map(value => row(value, value.readers)))));
  }
  if (which === 'before' && !node.port) parts.push(part('After the passes', fateText(node)));
  if (which === 'after' && node.computes) {
    const rows = node.computes.map(other =>
      element('li', {}, button(`${other.label} ${other.name}`, () => goTo('before', other))));
    parts.push(part('Computes these nodes of the model', element('ul', {}, ...rows)));
  }
  if (node.cost) parts.push(part('Cost', costText(node.cost)));
  if (node.time) parts.push(part('Measured', timeText(node.time, node.cost)));
  if (node.code) {
    const title = `Generated code, from line ${node.code.line}`;
    parts.push(part(title, element('pre', { textContent: node.code.text })));
  }
  return parts;
}

const part = (title, content) =>
  element('div', {}, element('h3', { textContent: title }), content);

function fateText(node) {
  if (node.fate === -1) return element('span', { textContent: 'folded: known before the run' });
  if (node.fate < 0) return element('span', { textContent: 'removed: it has no effect' });
  const into = GRAPHS.after.nodes[node.fate];
  return button(`${into.label} ${into.name}`, () => goTo('after', into));
}

function costText({ macs, operations, bytes, kernels }) {
  const share = 100 * operations / allOperations;
  return element('ul', {},
    element('li', { textContent: `${grouped(macs)} multiply-adds, ${share.toFixed(1)} % of the operations` }),
    element('li', { textContent: `${grouped(bytes)} bytes read and written` }),
    element('li', {}, element('code', { textContent: kernels })));
}

function timeText({ us, leastUs, perRun }, cost) {
  const share = `${microText(us)} in one run, ${(100 * us / allTime).toFixed(1)} % of the time`;
  const executions = perRun === 1 ? '' : `, ${digits(perRun)} executions`;
  const speed = speedText(cost, us);
  return element('ul', {},
    element('li', { textContent: share + executions }),
    element('li', { textContent: `at least ${microText(leastUs)}${speed && `, ${speed} GFLOP/s`}` }));
}

/** The speed of a node in GFLOP/s, if it has multiply-adds. */
const speedText = (cost, us) => cost?.macs && us ? digits(2 * cost.macs / us / 1e3) : '';

/** The range of a value in a run, as a line of its own. */
const rangePart = range =>
  range ? element('small', { className: 'line', textContent: rangeText(range) }) : null;

function rangeText([least, most, mean, zeros]) {
  const share = zeros ? `, ${(100 * zeros).toFixed(1)} % zeros` : '';
  return `${finiteText(least)} … ${finiteText(most)}, mean ${finiteText(mean)}${share}`;
}

/** A number that may be infinite or no number: null in the data. */
const finiteText = number => number === null ? 'not finite' : digits(number);

const digits = number => String(Number(number.toPrecision(4)));
const microText = us => us >= 1000 ? `${digits(us / 1000)} ms` : `${digits(us)} µs`;

const allTime = (DATA.measured?.times ?? []).reduce((sum, time) => sum + time[1], 0) || 1;
const allOperations = Math.max(1, DATA.costs.reduce((sum, cost) => sum + cost[2], 0));

/** Sets up the view. */
function initGraph() {
  const choices = [['after', 'Compiled graph'], ['before', 'Model']];
  document.querySelector('.switch').append(...choices.map(([which, text]) => {
    const made = element('button', { textContent: text, onclick: () => showGraph(which) });
    made.dataset.graph = which;
    return made;
  }));
  const tools = [
    ['+', 'Zoom in', () => zoomBy(1.3)],
    ['−', 'Zoom out', () => zoomBy(1 / 1.3)],
    ['Fit', 'Show the whole graph (0)', () => fit(true)],
    ['Unfold all', 'Open every scope', () => toggleAll(true)],
    ['Fold all', 'Close every scope', () => toggleAll(false)],
  ];
  document.querySelector('.tools').append(...tools.map(([text, title, act]) =>
    element('button', { textContent: text, title, onclick: act })));
  const counts = GRAPHS.after.root.kinds.map((count, kind) => count + GRAPHS.before.root.kinds[kind]);
  document.querySelector('.legend').append(...KINDS.flatMap((name, kind) =>
    counts[kind] ? [element('li', {}, dot(kind), name)] : []));
  initPointer();
}

function initPointer() {
  let last = null;
  let moved = 0;
  graphCanvas.addEventListener('pointerdown', event => {
    last = [event.offsetX, event.offsetY];
    moved = 0;
    graphCanvas.setPointerCapture(event.pointerId);
    graphCanvas.classList.add('dragging');
  });
  graphCanvas.addEventListener('pointermove', event => {
    if (!last) return;
    const [dx, dy] = [event.offsetX - last[0], event.offsetY - last[1]];
    moved += Math.abs(dx) + Math.abs(dy);
    graphView.view.x += dx;
    graphView.view.y += dy;
    last = [event.offsetX, event.offsetY];
    redraw();
  });
  graphCanvas.addEventListener('pointerup', event => {
    graphCanvas.classList.remove('dragging');
    last = null;
    if (moved > 4) return;
    const item = itemAt(event.offsetX, event.offsetY);
    if (item?.isGroup) toggle(item);
    mark(item);
  });
  graphCanvas.addEventListener('wheel', event => {
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    zoomAt(event.offsetX, event.offsetY, Math.exp(-pixels / 400));
  }, { passive: false });
}
