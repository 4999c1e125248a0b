/* The views of text and tables: overview, cost, weights. */

const cell = (content, isNumber = false) => {
  const made = element('td', { className: isNumber ? 'number' : '' });
  made.append(content);
  return made;
};

/** A table whose columns sort by a click on their head. */
function table(heads, rows, className = '') {
  const body = element('tbody', {}, ...rows.map(row => row.made));
  const titles = heads.map(({ title, key, isNumber }) => {
    const sort = () => {
      const sorted = [...rows].sort((a, b) => isNumber ? b[key] - a[key] : a[key].localeCompare(b[key]));
      body.replaceChildren(...sorted.map(row => row.made));
    };
    const text = key ? element('button', { textContent: title, onclick: sort }) : title;
    return element('th', { className: isNumber ? 'number' : '', scope: 'col' }, text);
  });
  return element('table', { className }, element('thead', {}, element('tr', {}, ...titles)), body);
}

function initOverview() {
  const facts = DATA.facts;
  const figures = [
    ['Parameters', countText(facts.parameters), facts.weights.map(of => of.type).join(', ')],
    ['Multiply-adds', facts.multiply_adds === null ? 'free' : countText(facts.multiply_adds), 'in one run'],
    ['Weights', bytesText(facts.weight_bytes), `${grouped(facts.weight_bytes)} bytes`],
    ['Arena', facts.arena_bytes === null ? 'free' : bytesText(facts.arena_bytes), arenaPlace()],
  ];
  const made = figures.map(([title, figure, note]) => element('div', {},
    element('dt', { textContent: title }),
    element('dd', {}, figure, element('small', { textContent: note }))));
  const column = element('div', { className: 'column' },
    element('dl', { className: 'figures' }, ...made),
    element('div', { className: 'two' },
      element('div', {}, element('h2', { textContent: 'Interface' }), interfaceTable(),
        ...sizesPart(), ...heapPart()),
      element('div', {}, element('h2', { textContent: 'Operators, before and after the passes' }), operatorTable())));
  document.getElementById('view-overview').append(column);
}

function arenaPlace() {
  const { arena, arena_bytes: bytes } = DATA.facts;
  const places = { struct: 'in the struct', heap: 'on the heap', caller: 'with the caller' };
  return bytes === null ? 'laid out by each run' : `${grouped(bytes)} bytes, ${places[arena]}`;
}

function interfaceTable() {
  const rows = DATA.facts.interface.map(port => ({
    made: element('tr', {}, cell(port.kind), cell(port.name),
      cell(element('code', { textContent: port.type }))),
  }));
  return table([{ title: '' }, { title: 'Name' }, { title: 'Type' }], rows);
}

function sizesPart() {
  const sizes = DATA.facts.free_sizes;
  if (sizes.length === 0) return [];
  const rows = sizes.map(size => ({
    made: element('tr', {}, cell(size.name), cell(size.most === null ? '' : `at most ${size.most}`),
      cell(size.bound_by.join(', '))),
  }));
  const heads = [{ title: 'Name' }, { title: '' }, { title: 'Bound by' }];
  return [element('h2', { textContent: 'Free sizes' }), table(heads, rows)];
}

function heapPart() {
  const heap = DATA.facts.heap;
  if (heap.length === 0) return [];
  const rows = heap.map(value => ({
    made: element('tr', {}, cell(value.name), cell(value.type), cell(value.reason)),
  }));
  const heads = [{ title: 'Value' }, { title: 'Type' }, { title: 'Reason' }];
  return [element('h2', { textContent: 'On the heap' }), table(heads, rows)];
}

function operatorTable() {
  const kindOf = new Map([...GRAPHS.before.nodes, ...GRAPHS.after.nodes].map(node => [node.label, node.kind]));
  const rows = DATA.facts.operators.map(({ operator, before, after }) => ({
    operator, before, after,
    made: element('tr', {},
      cell(element('span', {}, dot(kindOf.get(operator.split('::').pop()) ?? 8), operator)),
      cell(before ? grouped(before) : '', true), cell(after ? grouped(after) : '', true)),
  }));
  return table([
    { title: 'Operator', key: 'operator' },
    { title: 'Before', key: 'before', isNumber: true },
    { title: 'After', key: 'after', isNumber: true },
  ], rows);
}

function initCost() {
  const rows = DATA.costs.map(([id, macs, operations, bytes, kernels]) => {
    const node = GRAPHS.after.nodes[id];
    return { node, macs, operations, bytes, kernels, name: node.name, operator: node.label };
  });
  rows.sort((a, b) => b.operations - a.operations || b.bytes - a.bytes);
  const most = Math.max(1, ...rows.map(row => row.operations));
  for (const row of rows) row.made = costRow(row, most);
  const isFree = DATA.facts.multiply_adds === null;
  const lead = isFree
    ? 'The multiply-adds depend on free sizes. Write the report with `--dim NAME=N` for each to see them.'
    : `One run takes ${grouped(DATA.facts.multiply_adds)} multiply-adds in ${grouped(rows.length)} nodes.`;
  document.getElementById('view-cost').append(element('div', { className: 'column' },
    element('p', { className: 'lead', textContent: lead }),
    table([
      { title: 'Node', key: 'name' },
      { title: 'Operator', key: 'operator' },
      { title: 'Multiply-adds', key: 'macs', isNumber: true },
      { title: 'Bytes', key: 'bytes', isNumber: true },
      { title: 'Share', key: 'operations', isNumber: true },
      { title: '' },
    ], rows, 'bars')));
}

function costRow({ node, macs, operations, bytes, kernels }, most) {
  const width = `width: ${(100 * operations / most).toFixed(2)}%; background: var(--k${node.kind})`;
  const share = 100 * operations / allOperations;
  return element('tr', {},
    cell(button(node.name, () => goTo('after', node))),
    cell(element('span', { title: kernels, textContent: node.label })),
    cell(grouped(macs), true), cell(grouped(bytes), true), cell(`${share.toFixed(1)} %`, true),
    cell(element('span', { className: 'bar', style: width })));
}

function initWeights() {
  const rows = DATA.weights.map(([name, type, bytes, range]) => ({ name, type, bytes, range }));
  rows.sort((a, b) => b.bytes - a.bytes);
  const extents = rows.filter(({ range, type }) => range && /^(b?float|double)/.test(type))
    .map(({ range }) => Math.max(Math.abs(range[0]), Math.abs(range[1]))).sort((a, b) => a - b);
  // A few constants with huge elements, such as masks, do not hide the others.
  const extent = extents[Math.floor(extents.length * 0.9)] || 1;
  for (const row of rows) row.made = weightRow(row, extent);
  const total = `${grouped(rows.length)} constants in ${grouped(DATA.facts.weight_bytes)} bytes. `
    + 'The bars reach from the least to the greatest element; the mark is the mean.';
  document.getElementById('view-weights').append(element('div', { className: 'column' },
    element('p', { className: 'lead', textContent: total }),
    table([
      { title: 'Weight', key: 'name' },
      { title: 'Type', key: 'type' },
      { title: 'Bytes', key: 'bytes', isNumber: true },
      { title: 'Least' }, { title: 'Greatest' }, { title: '' },
    ], rows, 'bars')));
}

/** The place of a number between the negative and the positive extent, in percent. Roots keep
    small ranges visible. */
const placeOf = (number, extent) =>
  50 + 50 * Math.sign(number) * Math.sqrt(Math.min(1, Math.abs(number) / extent));

function weightRow({ name, type, bytes, range }, extent) {
  const text = number => cell(range ? String(Number(number.toPrecision(4))) : '', false);
  const bar = range ? element('span', { className: 'range' },
    element('i', { style: `left: ${placeOf(range[0], extent)}%; right: ${100 - placeOf(range[1], extent)}%` }),
    element('b', { style: `left: ${placeOf(range[2], extent)}%` })) : '';
  return element('tr', {}, cell(name), cell(element('code', { textContent: type })),
    cell(grouped(bytes), true), text(range?.[0]), text(range?.[1]), cell(bar));
}
