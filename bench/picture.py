"""docs/bench.svg: what each gateway takes, as a multiple of nginx, on a logarithmic scale."""

from collections.abc import Callable, Iterator
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import NamedTuple

from bench.results import Results

PICTURE = Path(__file__).parents[1] / "docs" / "bench.svg"
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 250, 60, 92, 46
ROW, STEP = 58, 15
BAR = 11


class Line(NamedTuple):
    scenario: str
    figure: str
    label: str
    under: str


LINES = (
    Line("text-1000", "CPU per delta", "CPU per delta", "1,000 streams × 10/s, text"),
    Line("reasoning", "CPU per delta", "CPU per delta", "1,000 streams × 10/s, reasoning"),
    Line("flat-out", "deltas a second", "time per delta", "64 streams, flat out"),
    Line("whole", "CPU per request", "CPU per request", "whole answer"),
    Line("stream", "CPU per request", "CPU per request", "stream of 16 deltas"),
    Line("lone", "first event, p50", "first event", "one request at a time"),
)


TITLE = "What a gateway takes, as a multiple of nginx"
SUBTITLE = "nginx only copies the bytes; Antiphon and LiteLLM translate them. Logarithmic: shorter is better."
SHOWN_VERSIONS = "antiphon", "nginx", "litellm", "aiohttp"


class Series(NamedTuple):
    column: str
    name: str
    css: str


SERIES = (
    Series("proxy", "bare aiohttp proxy", "proxy"),
    Series("antiphon", "Antiphon", "ours"),
    Series("litellm", "LiteLLM", "other"),
)
# Readable on white and on black: a page may show it on either.
STYLE = """\
<style>
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .small { font-size: 11px; fill: #57606a; } .head { font-size: 16px; font-weight: 600; }
  .grid { stroke: #d0d7de; } .nginx { stroke: #57606a; stroke-width: 1.5; }
  .proxy { fill: #8c959f; } .ours { fill: #1a7f5a; } .other { fill: #b35900; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9198a1; } .grid { stroke: #3d444d; } .nginx { stroke: #9198a1; }
    .ours { fill: #3fb98a; } .other { fill: #e09b4f; }
  }
</style>"""


def picture(found: Results) -> str:
    return "\n".join(_svg(found)) + "\n"


def ratios(found: Results, line: Line) -> dict[str, float]:
    """Of each series to nginx; above 1 it takes more."""
    row = found.row(line.scenario, line.figure)
    base = row and row.middle("nginx")
    if row is None or not base:
        return {}
    values = {series.column: row.middle(series.column) for series in SERIES}
    more = row.shown.more_is_better
    return {column: base / value if more else value / base for column, value in values.items() if value}


def _svg(found: Results) -> Iterator[str]:
    rows = [(line, each) for line in LINES if (each := ratios(found, line))]
    all_ratios = [1.0, *(value for _, each in rows for value in each.values())]
    low, high = floor(log10(min(all_ratios))), max(1, ceil(log10(max(all_ratios))))
    height = TOP + ROW * len(rows) + BOTTOM

    def x(value: float) -> float:
        return LEFT + (log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    size, label = f'viewBox="0 0 {WIDTH} {height}"', f'aria-label="{escape(_summary(rows))}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {label}>'
    yield STYLE
    yield f'<text class="head" x="16" y="28">{TITLE}</text>'
    yield f'<text class="small" x="16" y="46">{SUBTITLE}</text>'
    yield from _legend()
    for power in range(low, high + 1):
        at = x(10**power)
        yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 8}" y2="{height - BOTTOM}"/>'
        yield f'<text class="small" x="{at:.1f}" y="{height - BOTTOM + 16}" text-anchor="middle">{_times(10**power)}</text>'
    for place, (line, each) in enumerate(rows):
        yield from _bars(line, each, TOP + place * ROW, x(1), x)
    yield f'<line class="nginx" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{TOP - 8}" y2="{height - BOTTOM}"/>'
    yield f'<text class="small" x="16" y="{height - 10}">{escape(_where(found))}</text>'
    yield "</svg>"


def _legend() -> Iterator[str]:
    at = 16
    for series in SERIES:
        yield f'<rect class="{series.css}" x="{at}" y="59" width="{BAR}" height="{BAR}" rx="2"/>'
        yield f'<text x="{at + 17}" y="69">{series.name}</text>'
        at += 45 + 7 * len(series.name)


def _bars(line: Line, each: dict[str, float], top: float, base: float, x: Callable[[float], float]) -> Iterator[str]:
    yield f'<text x="16" y="{top + 17}">{line.label}</text>'
    yield f'<text class="small" x="16" y="{top + 33}">{line.under}</text>'
    shown = [series for series in SERIES if series.column in each]
    for place, series in enumerate(shown):
        y, end = top + place * STEP, x(each[series.column])
        left, width = min(base, end), max(1.5, abs(end - base))
        yield f'<rect class="{series.css}" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text class="small" x="{max(base, end) + 5:.1f}" y="{y + 10}">{_times(each[series.column])}</text>'


def _times(value: float) -> str:
    return f"{value:,.0f} ×" if value >= 10 else f"{value:.3g} ×"


def _where(found: Results) -> str:
    versions = ", ".join(f"{name} {found.versions[name]}" for name in SHOWN_VERSIONS if name in found.versions)
    return f"make bench, {found.date}: {versions}; one core of {found.machine.get('cpu', '?')}"


def _summary(rows: list[tuple[Line, dict[str, float]]]) -> str:
    parts = (f"{line.label}, {line.under}: Antiphon {_times(each['antiphon'])}" for line, each in rows if "antiphon" in each)
    return "; ".join(parts)
