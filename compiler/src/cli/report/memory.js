/* The arena over the time of a run: steps from left to right, bytes from the bottom up. */

const memoryCanvas = document.getElementById('memory');
const tip = document.getElementById('tip');

const memoryView = { from: 0, to: 1, marked: null };

const MARGIN = { left: 86, right: 34, top: 34, bottom: 46 };

/** Reads the buffers and the bytes that are live at each step. */
function readArena() {
  if (!DATA.arena) return null;
  const { bytes, steps } = DATA.arena;
  const nodeAt = step => steps[step] >= 0 ? GRAPHS.after.nodes[steps[step]] : null;
  const live = new Array(steps.length + 1).fill(0);
  const blocks = DATA.arena.blocks.map(([name, type, offset, size, first, last]) => {
    for (let step = first; step <= last && step < live.length; step += 1) live[step] += size;
    return { name, type, offset, bytes: size, first, last, node: nodeAt(first) };
  });
  const most = Math.max(0, ...live);
  return { bytes, steps, blocks, nodeAt, live, peak: { step: live.indexOf(most), bytes: most } };
}

const ARENA = readArena();

function initMemory() {
  const line = document.getElementById('memory-line');
  if (!ARENA) {
    const names = DATA.facts.free_sizes.map(size => `--dim ${size.name}=N`).join(' ');
    line.textContent = `Each run lays out the arena for its sizes. Write the report with ${names} to see it.`;
    memoryCanvas.hidden = true;
    return;
  }
  const node = ARENA.nodeAt(ARENA.peak.step);
  line.append(
    'The arena has ', element('b', { textContent: `${grouped(ARENA.bytes)} bytes` }),
    `. At step ${ARENA.peak.step} of ${ARENA.steps.length - 1}, `,
    element('b', { textContent: `${grouped(ARENA.peak.bytes)} bytes` }), ' are live',
    node ? ': ' : '.', node ? button(`${node.label} ${node.name}`, () => goTo('after', node)) : '');
  memoryView.to = ARENA.steps.length;
  initMemoryPointer();
}

/** The places of steps and bytes on the canvas. */
function memoryScale(w, h) {
  const { from, to } = memoryView;
  const x = step => MARGIN.left + (step - from) / (to - from) * (w - MARGIN.left - MARGIN.right);
  const y = bytes => h - MARGIN.bottom
    - bytes / Math.max(1, ARENA.bytes) * (h - MARGIN.top - MARGIN.bottom);
  return { x, y };
}

function drawMemory() {
  if (!ARENA || memoryCanvas.clientWidth === 0) return;
  const { context, w, h } = prepareCanvas(memoryCanvas);
  const { x, y } = memoryScale(w, h);
  drawByteAxis(context, w, y);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, 0, w - MARGIN.left - MARGIN.right, h - MARGIN.bottom);
  context.clip();
  for (const block of ARENA.blocks) drawBlock(context, block, x, y);
  context.restore();
  drawStepAxis(context, w, h, x);
  drawPeak(context, w, h, x);
}

function drawBlock(context, block, x, y) {
  const [left, right] = [x(block.first), x(block.last + 1)];
  const [top, bottom] = [y(block.offset + block.bytes), y(block.offset)];
  const gap = right - left > 4 ? 0.5 : 0;
  const size = [left + gap, top + gap, Math.max(0.7, right - left - 2 * gap), Math.max(0.7, bottom - top - 2 * gap)];
  const isMarked = block === memoryView.marked;
  context.fillStyle = kindColor(block.node ? block.node.kind : -1);
  context.globalAlpha = isMarked ? 1 : 0.72;
  context.fillRect(...size);
  context.globalAlpha = 1;
  if (isMarked) {
    context.lineWidth = 2;
    context.strokeStyle = COLORS.accent;
    context.strokeRect(...size);
  }
  if (size[3] < 16 || size[2] < 44) return;
  context.font = SMALL;
  context.fillStyle = COLORS.paper;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  const most = Math.floor((size[2] - 12) / 6);
  if (most < Math.min(10, block.name.length)) return;
  context.fillText(shortened(block.name, most), size[0] + 6, size[1] + Math.min(size[3] / 2, 14));
}

/** A step between marks of an axis: 1, 2 or 5 times a power of `base`. */
function niceStep(range, count) {
  const rough = Math.max(1, range / count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
}

function drawByteAxis(context, w, y) {
  let step = 1;
  while (step * 6 < ARENA.bytes) step *= 2;
  context.font = SMALL;
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (let bytes = 0; bytes <= ARENA.bytes; bytes += step) {
    context.fillStyle = COLORS.line;
    context.fillRect(MARGIN.left, Math.round(y(bytes)), w - MARGIN.left - MARGIN.right, 1);
    context.fillStyle = COLORS.quiet;
    context.fillText(bytesText(bytes), MARGIN.left - 10, y(bytes));
  }
}

function drawStepAxis(context, w, h, x) {
  const { from, to } = memoryView;
  const step = niceStep(to - from, w / 110);
  context.font = SMALL;
  context.fillStyle = COLORS.quiet;
  context.textAlign = 'center';
  context.textBaseline = 'top';
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    context.fillText(grouped(at), x(at + 0.5), h - MARGIN.bottom + 10);
  }
  context.textAlign = 'right';
  context.fillText('step', w - MARGIN.right, h - MARGIN.bottom + 26);
}

function drawPeak(context, w, h, x) {
  const at = x(ARENA.peak.step + 0.5);
  if (at < MARGIN.left || at > w - MARGIN.right) return;
  context.fillStyle = COLORS.accent;
  context.fillRect(at - 0.75, MARGIN.top - 12, 1.5, h - MARGIN.top - MARGIN.bottom + 12);
  context.font = `600 12px ${FONT}`;
  context.textBaseline = 'bottom';
  const isLeft = at < w / 2;
  context.textAlign = isLeft ? 'left' : 'right';
  context.fillText(`peak: ${bytesText(ARENA.peak.bytes)}`, at + (isLeft ? 7 : -7), MARGIN.top - 5);
}

function blockAt(px, py) {
  const { x, y } = memoryScale(memoryCanvas.clientWidth, memoryCanvas.clientHeight);
  return ARENA.blocks.find(block => px >= x(block.first) && px <= x(block.last + 1)
    && py >= y(block.offset + block.bytes) && py <= y(block.offset)) ?? null;
}

/** Zooms the time axis around a place, or moves it. */
function changeTime(factor, shift, at) {
  const all = ARENA.steps.length;
  const range = Math.min(all, Math.max(4, (memoryView.to - memoryView.from) * factor));
  const middle = memoryView.from + at * (memoryView.to - memoryView.from);
  const from = Math.min(all - range, Math.max(0, middle - at * range + shift * range));
  Object.assign(memoryView, { from, to: from + range });
  drawMemory();
}

function initMemoryPointer() {
  memoryCanvas.addEventListener('pointermove', event => {
    const block = blockAt(event.offsetX, event.offsetY);
    if (block !== memoryView.marked) {
      memoryView.marked = block;
      drawMemory();
    }
    tip.hidden = !block;
    if (!block) return;
    const until = block.last > block.first ? `steps ${block.first} to ${block.last}` : `step ${block.first}`;
    tip.replaceChildren(
      element('b', { textContent: block.name }),
      element('small', { textContent: `${block.type}, ${grouped(block.bytes)} bytes at ${grouped(block.offset)}` }),
      element('small', { textContent: until + (block.node ? `, from ${block.node.label} ${block.node.name}` : '') }));
    const right = event.offsetX > memoryCanvas.clientWidth - 400;
    tip.style.left = `${event.offsetX + (right ? -tip.offsetWidth - 14 : 16)}px`;
    tip.style.top = `${memoryCanvas.offsetTop + Math.max(0, event.offsetY - 20)}px`;
  });
  memoryCanvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  memoryCanvas.addEventListener('click', event => {
    const block = blockAt(event.offsetX, event.offsetY);
    if (block?.node) goTo('after', block.node);
  });
  memoryCanvas.addEventListener('wheel', event => {
    event.preventDefault();
    const width = memoryCanvas.clientWidth - MARGIN.left - MARGIN.right;
    const at = Math.min(1, Math.max(0, (event.offsetX - MARGIN.left) / width));
    changeTime(Math.exp(event.deltaY / 400), event.deltaX / width, at);
  }, { passive: false });
}
