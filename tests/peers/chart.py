"""Draws the results of a comparison as an SVG: a row for each model, a dot for each peer."""
import math
from xml.sax.saxutils import escape

COLORS = ["#2f6fde", "#e07b1f", "#3a9d5d", "#b04a9a", "#7a7a7a"]
LABEL, SCALE, ROW, TOP = 170, 470, 19, 58


def place(ratio, limits):
    """Returns the position of a ratio on the logarithmic axis."""
    low, high = (math.log(limit) for limit in limits)
    inside = min(max(math.log(ratio), low), high)
    return LABEL + SCALE * (inside - low) / (high - low)


def text(x, y, content, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def mean_ratio(row):
    """Returns the geometric mean of a row's ratios."""
    _, ratios = row
    return math.exp(sum(map(math.log, ratios.values())) / len(ratios))


def axis(limits, height):
    """Draws a line for each power of two; the one for equal times is heavier."""
    lines = []
    first, last = (round(math.log2(limit)) for limit in limits)
    for power in range(first, last + 1):
        x = place(2.0**power, limits)
        width = 1.6 if power == 0 else 0.5
        lines.append(
            f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 8}" stroke="#888" '
            f'stroke-width="{width}"/>'
        )
        lines.append(text(x, TOP - 12, f"{2.0**power:g} ×", "middle"))
    return lines


def chart(title, rows, peers):
    """Returns an SVG of `rows`: the name of a model, and for each peer its time divided by ours."""
    rows = sorted(rows, key=mean_ratio, reverse=True)
    powers = [math.log2(ratio) for _, ratios in rows for ratio in ratios.values()]
    limits = (2.0 ** min(-1, math.floor(min(powers))), 2.0 ** max(2, math.ceil(max(powers))))
    width, height = LABEL + SCALE + 30, TOP + ROW * len(rows) + 12
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<g fill="#222">{text(12, 20, title)}',
        *axis(limits, height),
    ]
    for i, (name, ratios) in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        body.append(text(LABEL - 10, y + 4, name, "end"))
        for peer, ratio in ratios.items():
            x, color = place(ratio, limits), COLORS[list(peers).index(peer) % len(COLORS)]
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{color}"/>')
    x = width - 20
    for k, peer in reversed(list(enumerate(peers))):
        x -= 7.2 * len(peers[peer]) + 22
        body.append(f'<circle cx="{x:.1f}" cy="16" r="4.5" fill="{COLORS[k % len(COLORS)]}"/>')
        body.append(text(x + 9, 20, peers[peer]))
    return "\n".join([*body, "</g>", "</svg>", ""])
