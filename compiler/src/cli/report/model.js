'use strict';

/** The data of the page. */
const DATA = JSON.parse(document.getElementById('data').textContent);
const KINDS = DATA.kinds;

/** Formats a whole number with a comma after each group of three digits. */
const grouped = number => String(number).replace(/\B(?=(\d{3})+$)/g, ',');

/** Formats a number of bytes with three digits and a unit. */
function bytesText(bytes) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  let size = bytes;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : Number(size.toPrecision(3))} ${units[unit]}`;
}

/** Formats a count with three digits and a unit. */
function countText(count) {
  const units = ['', ' thousand', ' million', ' billion', ' trillion'];
  let unit = 0;
  let size = count;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return unit < 1 ? grouped(count) : `${size >= 100 ? Math.round(size) : size.toPrecision(3)}${units[unit]}`;
}

/** Returns an element with these properties and children. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

/** Returns a graph with its values, its nodes in order, and its tree of scopes. */
function readGraph(table) {
  const texts = table.texts;
  const values = table.values.map(([name, type, constant]) =>
    ({ name, type: texts[type], constant: constant === 1, producer: null, readers: [] }));
  const nodes = table.nodes.map(([name, operator, kind, path, inputs, outputs, attributes], id) => ({
    id,
    name,
    kind,
    label: texts[operator],
    path: texts[path] === '' ? [] : texts[path].split('\n'),
    inputs: inputs.map(value => values[value]),
    outputs: outputs.map(value => values[value]),
    attributes: texts[attributes],
  }));
  const port = (value, direction) => {
    const isInput = direction === 'input';
    const node = { id: -1, name: values[value].name, kind: -1, label: values[value].name, path: [] };
    node.inputs = isInput ? [] : [values[value]];
    node.outputs = isInput ? [values[value]] : [];
    node.attributes = '';
    node.port = direction;
    return node;
  };
  const inputs = table.inputs.map(value => port(value, 'input'));
  const outputs = table.outputs.map(value => port(value, 'output'));
  const all = [...inputs, ...nodes, ...outputs];
  all.forEach((node, order) => {
    node.order = order;
    for (const value of node.outputs) value.producer = node;
    for (const value of node.inputs) value.readers.push(node);
  });
  return { nodes, inputs, outputs, all, values, root: scopeTree(all) };
}

/** Returns the root of the tree of scopes. A scope of one node is not a scope. */
function scopeTree(nodes) {
  const make = (name, parent) =>
    ({ isGroup: true, name, parent, children: [], groups: new Map(), open: false });
  const root = make('', null);
  for (const node of nodes) {
    let group = root;
    for (const name of node.path) {
      if (!group.groups.has(name)) {
        const inner = make(name, group);
        group.groups.set(name, inner);
        group.children.push(inner);
      }
      group = group.groups.get(name);
    }
    node.parent = group;
    group.children.push(node);
  }
  root.open = true;
  flatten(root);
  split(root);
  summarize(root);
  return root;
}

/** The most nodes that are direct children of a scope. */
const MOST = 250;

/** Splits the nodes of a large scope without inner scopes into runs of neighbors in the order of
    the model, each a scope: exporters write the nodes of a loop's iterations one after the other. */
function split(group) {
  for (const child of group.children) if (child.isGroup) split(child);
  const nodes = group.children.filter(child => !child.isGroup && !child.port);
  if (nodes.length <= MOST) return;
  const size = Math.max(40, Math.ceil(nodes.length / 40));
  group.children = group.children.filter(child => child.isGroup || child.port);
  for (let at = 0; at < nodes.length; at += size) {
    const children = nodes.slice(at, at + size);
    const name = `${children[0].name} … ${children[children.length - 1].name}`;
    const run = { isGroup: true, name, parent: group, children, groups: new Map(), open: false };
    for (const child of children) child.parent = run;
    group.children.push(run);
  }
}

/** Replaces scopes of one child by the child, whose name then has both parts. */
function flatten(group) {
  group.children = group.children.map(child => {
    if (!child.isGroup) return child;
    flatten(child);
    if (child.children.length !== 1) return child;
    const only = child.children[0];
    only.parent = group;
    if (only.isGroup) only.name = `${child.name} / ${only.name}`;
    return only;
  });
}

/** Counts the nodes of each scope and of each kind in it. */
function summarize(group) {
  group.count = 0;
  group.order = Infinity;
  group.kinds = KINDS.map(() => 0);
  for (const child of group.children) {
    if (child.isGroup) summarize(child);
    group.count += child.isGroup ? child.count : 1;
    group.order = Math.min(group.order, child.order);
    if (child.isGroup) child.kinds.forEach((count, kind) => { group.kinds[kind] += count; });
    else if (child.kind >= 0) group.kinds[child.kind] += 1;
  }
}

const GRAPHS = { before: readGraph(DATA.before), after: readGraph(DATA.after) };

DATA.fates.forEach((fate, id) => {
  const node = GRAPHS.before.nodes[id];
  node.fate = fate;
  if (fate >= 0) {
    const into = GRAPHS.after.nodes[fate];
    into.computes = [...(into.computes ?? []), node];
  }
});
for (const [id, macs, operations, bytes, kernels] of DATA.costs) {
  GRAPHS.after.nodes[id].cost = { macs, operations, bytes, kernels };
}
for (const [id, us, leastUs, perRun] of DATA.measured?.times ?? []) {
  if (id >= 0) GRAPHS.after.nodes[id].time = { us, leastUs, perRun };
}
for (const [id, line, text] of DATA.code) GRAPHS.after.nodes[id].code = { line, text };
