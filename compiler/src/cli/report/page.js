/* The page around the views: tabs, theme, search, keys. */

const VIEWS = { overview: 'Overview', graph: 'Graph', memory: 'Memory', cost: 'Cost', weights: 'Ranges' };

const announcer = document.getElementById('announcer');
const announce = text => { announcer.textContent = text; };

function showView(name) {
  for (const view of Object.keys(VIEWS)) {
    document.getElementById(`view-${view}`).hidden = view !== name;
    document.getElementById(`tab-${view}`).setAttribute('aria-selected', String(view === name));
  }
  if (name === 'graph') {
    if (!graphView.drawing) showGraph(graphView.which);
    redraw();
  }
  if (name === 'memory') drawMemory();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColors();
  redraw();
  drawMemory();
}

const toggleTheme = () =>
  setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');

/* Search */

const searchInput = document.getElementById('search');
const results = document.getElementById('results');
let found = [];
let chosen = 0;

/** Finds nodes by operator, name, scope, or the name of an output. */
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const isMatch = node => {
    const all = [node.label, node.name, ...node.path, ...node.outputs.map(value => value.name)];
    const joined = all.join(' ').toLowerCase();
    return words.every(word => joined.includes(word));
  };
  const matches = [];
  for (const which of [graphView.which, graphView.which === 'after' ? 'before' : 'after']) {
    for (const node of GRAPHS[which].all) {
      if (matches.length >= 80) return matches;
      if (isMatch(node)) matches.push({ which, node });
    }
  }
  return matches;
}

function showResults() {
  found = search(searchInput.value);
  chosen = 0;
  results.replaceChildren(...found.map(({ which, node }, at) => {
    const row = element('li', { role: 'option', onmousedown: () => choose(at) },
      element('span', { textContent: node.port ?? node.label }),
      element('span', { textContent: [...node.path, node.name].join(' / ') }));
    if (which !== graphView.which) row.append(element('span', { textContent: which === 'before' ? 'in the model' : 'compiled' }));
    return row;
  }));
  results.hidden = found.length === 0;
  searchInput.setAttribute('aria-expanded', String(found.length > 0));
  markResult();
}

function markResult() {
  [...results.children].forEach((row, at) => {
    row.setAttribute('aria-selected', String(at === chosen));
    if (at === chosen) row.scrollIntoView({ block: 'nearest' });
  });
}

function choose(at) {
  const match = found[at];
  results.hidden = true;
  searchInput.setAttribute('aria-expanded', 'false');
  if (!match) return;
  goTo(match.which, match.node);
  graphCanvas.focus();
}

function initSearch() {
  searchInput.addEventListener('input', showResults);
  searchInput.addEventListener('focus', showResults);
  searchInput.addEventListener('blur', () => { results.hidden = true; });
  searchInput.addEventListener('keydown', event => {
    if (event.key === 'Enter') choose(chosen);
    else if (event.key === 'Escape') graphCanvas.focus();
    else if (event.key === 'ArrowDown') chosen = Math.min(found.length - 1, chosen + 1);
    else if (event.key === 'ArrowUp') chosen = Math.max(0, chosen - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
    markResult();
  });
}

/* Keys */

const KEYS = [
  ['1 … 5', 'the views', /^[1-5]$/, key => showView(Object.keys(VIEWS)[key - 1])],
  ['/', 'search', /^\/$/, () => searchInput.focus()],
  ['M', 'the graph of the model, or the compiled one', /^m$/i,
    () => { showView('graph'); showGraph(graphView.which === 'after' ? 'before' : 'after'); }],
  ['↑ ↓', 'along an edge', /^Arrow(Up|Down)$/, key => step(key === 'ArrowUp' ? 'up' : 'down')],
  ['← →', 'to the neighbor; in the memory, earlier and later', /^Arrow(Left|Right)$/,
    key => moveSideways(key === 'ArrowLeft' ? 'left' : 'right')],
  ['Enter', 'fold or unfold the scope', /^Enter$/, () => toggleMarked()],
  ['+ −', 'zoom', /^[+=−-]$/, key => zoomKey(key === '+' || key === '=' ? 1.3 : 1 / 1.3)],
  ['0', 'the whole graph', /^0$/, () => fit(true)],
  ['T', 'light or dark', /^t$/i, toggleTheme],
  ['?', 'these keys', /^\?$/, () => document.getElementById('keys').showModal()],
  ['Esc', 'clear the selection', /^Escape$/, () => mark(null)],
];

const isShown = view => !document.getElementById(`view-${view}`).hidden;

function moveSideways(direction) {
  if (isShown('memory') && ARENA) changeTime(1, direction === 'left' ? -0.2 : 0.2, 0.5);
  else step(direction);
}

function zoomKey(factor) {
  if (isShown('memory') && ARENA) changeTime(1 / factor, 0, 0.5);
  else zoomBy(factor);
}

function toggleMarked() {
  const { marked } = graphView;
  const group = marked?.isGroup ? marked : marked?.parent;
  if (!group?.parent) return;
  toggle(group);
  mark(group);
}

function initKeys() {
  const rows = KEYS.flatMap(([key, text]) => [
    element('dt', {}, element('kbd', { textContent: key })),
    element('dd', { textContent: text }),
  ]);
  const dialog = document.getElementById('keys');
  dialog.append(element('dl', {}, ...rows));
  dialog.addEventListener('click', () => dialog.close());
  document.getElementById('help').onclick = () => dialog.showModal();
  document.getElementById('theme').onclick = toggleTheme;
  document.addEventListener('keydown', event => {
    if (event.target === searchInput || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === 'Enter' && event.target instanceof HTMLButtonElement) return;
    const isArrow = event.key.startsWith('Arrow');
    if (isArrow && !isShown('graph') && !isShown('memory')) return;
    const row = KEYS.find(([, , pattern]) => pattern.test(event.key));
    if (!row) return;
    event.preventDefault();
    row[3](event.key);
  });
}

function initPage() {
  const { facts, version } = DATA;
  document.getElementById('name').textContent = facts.name;
  const origin = [facts.producer, facts.operator_sets.join(', '), `compiled by onnxc ${version}`];
  document.getElementById('origin').textContent = origin.filter(Boolean).join(' · ');
  document.getElementById('tabs').append(...Object.entries(VIEWS).map(([view, title]) =>
    element('button', { id: `tab-${view}`, role: 'tab', textContent: title, onclick: () => showView(view) })));
  const asked = new URLSearchParams(location.hash.slice(1));
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(asked.get('theme') ?? (isDark ? 'dark' : 'light'));
  initOverview();
  initGraph();
  initMemory();
  initCost();
  initRanges();
  initSearch();
  initKeys();
  if (asked.get('graph') === 'before') graphView.which = 'before';
  showView(asked.get('view') in VIEWS ? asked.get('view') : 'graph');
  const hasName = node => node.name === asked.get('node');
  const which = [graphView.which, 'after', 'before'].find(which => GRAPHS[which].all.some(hasName));
  if (which) goTo(which, GRAPHS[which].all.find(hasName));
  if (asked.get('fit')) fit(true);
  addEventListener('resize', () => { redraw(); drawMemory(); });
}

initPage();
