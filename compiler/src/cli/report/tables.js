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
  const rows = GRAPHS.after.nodes.filter(node => node.cost || node.time).map(node => ({
    node,
    ...(node.cost ?? { macs: 0, operations: 0, bytes: 0, kernels: '' }),
    us: node.time?.us ?? 0,
    name: node.name,
    operator: node.label,
  }));
  rows.sort((a, b) => b.us - a.us || b.operations - a.operations || b.bytes - a.bytes);
  const most = key => Math.max(1e-9, ...rows.map(row => row[key]));
  const scale = { operations: most('operations'), us: most('us') };
  for (const row of rows) row.made = costRow(row, scale);
  const measured = [
    { title: 'Measured', key: 'us', isNumber: true },
    { title: 'GFLOP/s', isNumber: true },
    { title: 'Of the time', key: 'us', isNumber: true },
  ];
  document.getElementById('view-cost').append(element('div', { className: 'column' },
    element('p', { className: 'lead', textContent: costLead(rows.length) }),
    table([
      { title: 'Node', key: 'name' },
      { title: 'Operator', key: 'operator' },
      { title: 'Multiply-adds', key: 'macs', isNumber: true },
      { title: 'Bytes', key: 'bytes', isNumber: true },
      { title: 'Of the operations', key: 'operations', isNumber: true },
      ...(DATA.measured ? measured : []),
      { title: '' },
    ], rows, 'bars')));
}

function costLead(count) {
  const { measured, facts } = DATA;
  const time = measured
    ? ` It took ${microText(allTime)} here, the mean of ${grouped(measured.runs)} runs: the upper bars are the time, the lower ones the operations.`
    : '';
  if (facts.multiply_adds !== null) {
    return `One run takes ${grouped(facts.multiply_adds)} multiply-adds in ${grouped(count)} nodes.${time}`;
  }
  return 'The multiply-adds depend on free sizes. Write the report with `--dim NAME=N` for each to see them.'
    + time;
}

function costRow({ node, macs, operations, bytes, kernels, us }, scale) {
  const bar = (share, className) => element('span', {
    className, style: `width: ${(100 * share).toFixed(2)}%; background: var(--k${node.kind})`,
  });
  const percent = share => cell(`${(100 * share).toFixed(1)} %`, true);
  const computed = bar(operations / scale.operations, DATA.measured ? 'bar thin' : 'bar');
  const measured = DATA.measured ? [
    cell(microText(us), true),
    cell(speedText(node.cost, us), true),
    percent(us / allTime),
  ] : [];
  const bars = DATA.measured ? [bar(us / scale.us, 'bar'), computed] : [computed];
  return element('tr', {},
    cell(button(node.name, () => goTo('after', node))),
    cell(element('span', { title: kernels, textContent: node.label })),
    cell(grouped(macs), true), cell(grouped(bytes), true), percent(operations / allOperations),
    ...measured, element('td', {}, ...bars));
}

function initRanges() {
  const weights = DATA.weights.map(([name, type, bytes, range]) => ({ name, type, bytes, range }));
  weights.sort((a, b) => b.bytes - a.bytes);
  const total = `${grouped(weights.length)} constants in ${grouped(DATA.facts.weight_bytes)} bytes. `
    + 'The bars reach from the least to the greatest element; the mark is the mean.';
  const hint = DATA.ranges ? '' : ' `--data` shows the other values too.';
  document.getElementById('view-weights').append(element('div', { className: 'column' },
    element('h2', { textContent: 'Weights' }),
    element('p', { className: 'lead', textContent: total + hint }),
    rangeTable(weights, { title: 'Bytes', key: 'bytes', isNumber: true }, row => grouped(row.bytes)),
    ...(DATA.ranges ? valuesPart() : [])));
}

/** The ranges of the values that are no constants, in the order of the compiled graph. */
function valuesPart() {
  const seen = new Set();
  const rows = [GRAPHS.after, GRAPHS.before].flatMap(graph => graph.values)
    .filter(({ name, constant }) => !constant && DATA.ranges[name] && !seen.has(name) && seen.add(name))
    .map(({ name, type, producer }) => ({ name, type, range: DATA.ranges[name], operator: producer?.label ?? '' }));
  const lead = `${grouped(rows.length)} values of a run on the data, before the passes where both graphs have them.`;
  return [
    element('h2', { textContent: 'Values of a run' }),
    element('p', { className: 'lead', textContent: lead }),
    rangeTable(rows, { title: 'Operator', key: 'operator' }, row => row.operator),
  ];
}

/** A table of ranges with one more column. */
function rangeTable(rows, head, content) {
  const extents = rows.filter(({ range, type }) => range && /^(b?float|double)/.test(type))
    .map(({ range }) => Math.max(Math.abs(range[0]), Math.abs(range[1]))).sort((a, b) => a - b);
  // A few constants with huge elements, such as masks, do not hide the others.
  const extent = extents[Math.floor(extents.length * 0.9)] || 1;
  for (const row of rows) {
    row.zeros = row.range?.[3] ?? 0;
    row.made = rangeRow(row, cell(content(row), head.isNumber), extent);
  }
  return table([
    { title: 'Name', key: 'name' },
    { title: 'Type', key: 'type' },
    head,
    { title: 'Least', isNumber: true }, { title: 'Greatest', isNumber: true },
    { title: 'Mean', isNumber: true }, { title: 'Zeros', key: 'zeros', isNumber: true },
    { title: '' },
  ], rows, 'bars');
}

/** The place of a number between the negative and the positive extent, in percent. Roots keep
    small ranges visible. */
const placeOf = (number, extent) =>
  50 + 50 * Math.sign(number) * Math.sqrt(Math.min(1, Math.abs(number) / extent));

function rangeRow({ name, type, range, zeros }, more, extent) {
  const text = number => cell(range ? finiteText(number) : '', true);
  const [least, most, mean] = range ?? [];
  const bar = range ? element('span', { className: 'range' },
    element('i', { style: `left: ${placeOf(least ?? -extent, extent)}%; right: ${100 - placeOf(most ?? extent, extent)}%` }),
    mean === null ? null : element('b', { style: `left: ${placeOf(mean, extent)}%` })) : '';
  return element('tr', {}, cell(name), cell(element('code', { textContent: type })), more,
    text(least), text(most), text(mean), cell(zeros ? `${(100 * zeros).toFixed(1)} %` : '', true),
    cell(bar));
}
