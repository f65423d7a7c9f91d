"""A plot as plain SVG: both axes logarithmic, a line for each name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from bench.figures import quantile

_WIDTH, _HEIGHT, _MARGIN_LEFT, _MARGIN_TOP = 760, 420, 60, 30
_COLOURS = (
    "#1b6ca8",
    "#c8553d",
    "#588b8b",
    "#8f5db7",
    "#7a9e2f",
    "#b8860b",
    "#444444",
    "#d1495b",
    "#2e86ab",
)


class Plot:
    """p95 in milliseconds over the number of facts."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._lines: dict[str, list[tuple[int, float]]] = {}

    def add(self, name: str, facts: int, samples: Sequence[float]) -> None:
        """Add a point."""
        point = (facts, quantile(samples, 0.95) * 1000)
        self._lines.setdefault(name, []).append(point)

    def write(self, path: Path) -> str:
        """Write the picture; return the Markdown that shows it."""
        points = [point for line in self._lines.values() for point in line]
        low = math.floor(math.log10(min(y for _, y in points)))
        high = math.ceil(math.log10(max(y for _, y in points)) + 1e-9)
        first = math.log10(min(x for x, _ in points))
        last = max(math.log10(max(x for x, _ in points)), first + 1)

        def position_of(x: float, y: float) -> tuple[float, float]:
            x_offset = (math.log10(x) - first) / (last - first) * (_WIDTH - 320)
            y_offset = (math.log10(y) - low) / max(1, high - low) * (_HEIGHT - 90)
            return _MARGIN_LEFT + x_offset, _HEIGHT - 50 - y_offset

        parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
                'font-family="sans-serif" font-size="12">'
            ),
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            (
                f'<text x="{_MARGIN_LEFT}" y="{_MARGIN_TOP - 10}">{self._title}, '
                "over the number of facts</text>"
            ),
        ]
        for power in range(low, high + 1):
            x, y = position_of(10**first, 10.0**power)
            parts.append(f'<line x1="{x}" y1="{y}" x2="{_WIDTH - 260}" y2="{y}" stroke="#ddd"/>')
            parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{10.0**power:g}</text>')
        for size in sorted({x for x, _ in points}):
            x, y = position_of(size, 10.0**low)
            parts.append(f'<text x="{x}" y="{y + 20}" text-anchor="middle">{size:,}</text>')
        for index, (name, line) in enumerate(self._lines.items()):
            colour = _COLOURS[index % len(_COLOURS)]
            spots = [position_of(*point) for point in sorted(line)]
            path_of = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
            parts.append(f'<polyline points="{path_of}" fill="none" stroke="{colour}"/>')
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots
            ]
            parts.append(
                f'<text x="{_WIDTH - 250}" y="{_MARGIN_TOP + 10 + 18 * index}" '
                f'fill="{colour}">{name}</text>'
            )
        path.write_text("\n".join([*parts, "</svg>"]) + "\n")
        return f"\n![{self._title}]({path.name})\n"
