/* The layered drawing of a graph. Each open scope is laid out by itself, and is one cell of the
   scope around it. Edges that cross its border go through the top or the bottom of its cell.
   The steps are those of Sugiyama, Tagawa and Toda (1981): layers, order, coordinates. */

const GAP_X = 22;
const GAP_Y = 40;
const PAD = 20;
const HEAD = 30;
/** The distance between the border of a scope and the nodes inside. */
const BORDER = 10;
/** The longest edge, in layers, for which space is kept. */
const LONGEST = 12;

/** Lays out a whole graph, and returns what to draw: scopes, nodes and edges in one plane. */
function layOut(graph, measure) {
  collectEdges(graph);
  layOutGroup(graph.root, measure);
  const drawing = { groups: [], nodes: [], edges: [], w: graph.root.w, h: graph.root.h };
  place(graph.root, 0, 0, drawing);
  return drawing;
}

/** The items around a node from the root on, up to the first closed scope. */
function chain(node) {
  const items = [];
  for (let item = node; item; item = item.parent) items.unshift(item);
  const closed = items.findIndex(item => item.isGroup && !item.open);
  return closed < 0 ? items : items.slice(0, closed + 1);
}

/** Distributes the edges of a graph to the innermost open scopes that contain them. */
function collectEdges(graph) {
  const clear = group => {
    group.edges = new Map();
    group.entry = { isBorder: true, order: -1, w: 0, h: 0 };
    group.exit = { isBorder: true, order: Infinity, w: 0, h: 0 };
    for (const child of group.children) if (child.isGroup && child.open) clear(child);
  };
  clear(graph.root);
  const add = (group, from, to, value) => {
    if (from === to) return;
    const inner = group.edges.get(from) ?? new Map();
    group.edges.set(from, inner);
    const edge = inner.get(to);
    if (edge) edge.count += 1;
    else inner.set(to, { from, to, value, count: 1 });
  };
  for (const node of graph.all) {
    const below = chain(node);
    for (const value of node.inputs) {
      if (!value.producer || value.constant) continue;
      const above = chain(value.producer);
      let common = 0;
      while (common + 1 < Math.min(above.length, below.length)
        && above[common + 1] === below[common + 1]) common += 1;
      if (common === above.length - 1 || common === below.length - 1) continue;
      for (let at = above.length - 2; at > common; at -= 1) {
        add(above[at], above[at + 1], above[at].exit, value);
      }
      add(above[common], above[common + 1], below[common + 1], value);
      for (let at = common + 1; at < below.length - 1; at += 1) {
        add(below[at], below[at].entry, below[at + 1], value);
      }
    }
  }
}

/** Lays out the inside of an open scope, and sets its size. */
function layOutGroup(group, measure) {
  for (const child of group.children) {
    if (child.isGroup && child.open) layOutGroup(child, measure);
    else Object.assign(child, measure(child));
  }
  const edges = [...group.edges.values()].flatMap(inner => [...inner.values()]);
  const items = [...group.children];
  if (edges.some(edge => edge.from === group.entry)) items.push(group.entry);
  if (edges.some(edge => edge.to === group.exit)) items.push(group.exit);
  items.sort((a, b) => a.order - b.order);
  const cells = new Map(items.map(item => [item, { item, w: item.w, h: item.h, up: [], down: [] }]));
  const { layers, routes } = assignLayers([...cells.values()], edges, cells, group);
  orderLayers(layers);
  const width = assignX(layers);
  let y = group.parent ? HEAD : PAD;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map(cell => cell.h));
    for (const cell of layer) Object.assign(cell, { y: y + (height - cell.h) / 2, top: y, bottom: y + height });
    y += height + (layer.every(cell => cell.item?.isBorder) ? BORDER : GAP_Y);
  }
  for (const cell of cells.values()) Object.assign(cell.item, { x: cell.x + PAD, y: cell.y });
  group.routes = routes.map(({ edge, cells: [first, ...rest], isBack }) => {
    const last = rest.pop();
    const points = [[first.x + first.w / 2, first.y + first.h]];
    for (const cell of rest) points.push([cell.x, cell.top], [cell.x, cell.bottom]);
    points.push([last.x + last.w / 2, last.y]);
    const isFar = rest.length === 0 && last.layer - first.layer > 1;
    return { edge, points: points.map(([x, y]) => [x + PAD, y]), isBack, isFar };
  });
  const title = group.name.length * 6.6 + 50;
  group.w = Math.max(width + 2 * PAD, group.parent ? title : 0);
  const shift = (group.w - width - 2 * PAD) / 2;
  for (const item of items) item.x += shift;
  for (const route of group.routes) for (const point of route.points) point[0] += shift;
  const isClosed = layers[layers.length - 1].every(cell => cell.item?.isBorder);
  group.h = y - (isClosed ? BORDER + GAP_Y / 2 : GAP_Y) + PAD;
  // The edges around the scope end in the middle of its top and its bottom.
  for (const { edge, points } of group.routes) {
    if (edge.from === group.entry) points[0] = [group.w / 2, 0];
    if (edge.to === group.exit) points[points.length - 1] = [group.w / 2, group.h];
  }
}

/** Assigns each cell to a layer below those that it reads. Long edges get a cell in each layer. */
function assignLayers(cells, edges, cellOf, group) {
  const links = edges.map(edge => {
    const [from, to] = [cellOf.get(edge.from), cellOf.get(edge.to)];
    const isBack = edge.from.order > edge.to.order;
    return isBack ? { edge, from: to, to: from, isBack } : { edge, from, to, isBack };
  });
  const [into, outOf] = [new Map(), new Map()];
  const push = (map, key, link) => map.has(key) ? map.get(key).push(link) : map.set(key, [link]);
  for (const link of links) {
    push(into, link.to, link);
    push(outOf, link.from, link);
  }
  let deepest = 0;
  for (const cell of cells) {
    cell.layer = Math.max(0, ...(into.get(cell) ?? []).map(link => link.from.layer + 1));
    deepest = Math.max(deepest, cell.layer);
  }
  // What nothing above determines moves down to its first reader.
  for (const cell of [...cells].reverse()) {
    const below = outOf.get(cell);
    if (below && !into.has(cell) && cell.item !== group.entry) {
      cell.layer = Math.max(0, Math.min(...below.map(link => link.to.layer)) - 1);
    }
  }
  const exit = cellOf.get(group.exit);
  if (exit && cells.some(cell => cell !== exit && cell.layer >= exit.layer)) exit.layer = deepest + 1;
  const layers = Array.from({ length: Math.max(deepest, exit?.layer ?? 0) + 1 }, () => []);
  for (const cell of cells) layers[cell.layer].push(cell);
  const routes = links.map(({ edge, from, to, isBack }) => {
    const route = [from];
    if (to.layer - from.layer <= LONGEST) {
      for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
        const bend = { w: 0, h: 0, up: [], down: [], layer, isBend: true };
        layers[layer].push(bend);
        route.push(bend);
      }
      route.push(to);
      for (let at = 1; at < route.length; at += 1) {
        route[at - 1].down.push(route[at]);
        route[at].up.push(route[at - 1]);
      }
    } else {
      route.push(to);
    }
    return { edge, cells: route, isBack };
  });
  return { layers: layers.filter(layer => layer.length > 0), routes };
}

/** Orders each layer so that few edges cross: by the mean position of the neighbors. */
function orderLayers(layers) {
  const number = layer => layer.forEach((cell, at) => { cell.at = at; });
  layers.forEach(number);
  const sort = (layer, side) => {
    for (const cell of layer) {
      const near = cell[side];
      cell.mean = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : cell.at;
    }
    layer.sort((a, b) => a.mean - b.mean || a.at - b.at);
    number(layer);
  };
  for (let sweep = 0; sweep < 6; sweep += 1) {
    for (let at = 1; at < layers.length; at += 1) sort(layers[at], 'up');
    for (let at = layers.length - 2; at >= 0; at -= 1) sort(layers[at], 'down');
  }
}

/** Assigns x coordinates near the neighbors' in each layer, and returns the width. */
function assignX(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const cell of layer) {
      cell.x = x;
      x += cell.w + GAP_X;
    }
  }
  const center = cell => cell.x + cell.w / 2;
  const pull = (layer, sides) => {
    const wanted = layer.map(cell => {
      const near = sides.flatMap(side => cell[side]);
      if (near.length === 0) return { x: cell.x, weight: 0.01 };
      const sum = near.reduce((total, other) => total + center(other), 0);
      return { x: sum / near.length - cell.w / 2, weight: cell.isBend ? 4 : 1 };
    });
    separate(layer, wanted);
  };
  for (let sweep = 0; sweep < 8; sweep += 1) {
    for (let at = 1; at < layers.length; at += 1) pull(layers[at], ['up']);
    for (let at = layers.length - 2; at >= 0; at -= 1) pull(layers[at], ['down']);
  }
  for (let at = 1; at < layers.length; at += 1) pull(layers[at], ['up', 'down']);
  const left = Math.min(...layers.map(layer => layer[0].x));
  let right = left;
  for (const layer of layers) {
    for (const cell of layer) cell.x -= left;
    const last = layer[layer.length - 1];
    right = Math.max(right, last.x + last.w + left);
  }
  return right - left;
}

/** Moves the cells of a layer as near as possible to where they want to be, without overlap: the
    least squares under an order, by pooling adjacent violators. */
function separate(layer, wanted) {
  const offsets = [];
  let offset = 0;
  for (const cell of layer) {
    offsets.push(offset);
    offset += cell.w + GAP_X;
  }
  const pools = [];
  wanted.forEach(({ x, weight }, at) => {
    let pool = { sum: (x - offsets[at]) * weight, weight, count: 1 };
    while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].weight
      > pool.sum / pool.weight) {
      const before = pools.pop();
      pool = {
        sum: before.sum + pool.sum,
        weight: before.weight + pool.weight,
        count: before.count + pool.count,
      };
    }
    pools.push(pool);
  });
  let at = 0;
  for (const pool of pools) {
    for (let i = 0; i < pool.count; i += 1) {
      layer[at].x = pool.sum / pool.weight + offsets[at];
      at += 1;
    }
  }
}

/** Collects what to draw, in the coordinates of the whole drawing. */
function place(group, x, y, drawing) {
  Object.assign(group, { left: x, top: y });
  if (group.parent) drawing.groups.push(group);
  for (const { edge, points, isBack, isFar } of group.routes) {
    const moved = points.map(([a, b]) => [a + x, b + y]);
    const [xs, ys] = [moved.map(point => point[0]), moved.map(point => point[1])];
    drawing.edges.push({
      edge,
      points: moved,
      isBack,
      isFar,
      box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
    });
  }
  for (const child of group.children) {
    if (child.isGroup && child.open) place(child, x + child.x, y + child.y, drawing);
    else {
      Object.assign(child, { left: x + child.x, top: y + child.y });
      drawing.nodes.push(child);
    }
  }
}
