"""The dashboard: every query names metrics and labels that exist."""

import re
from typing import Any

from deploy.files import dashboard
from server.metrics.table import metrics

# Those of Prometheus itself, which each series has.
TARGET_LABELS = {"job", "instance"}
METRICS = {name: set(labels) for name, _, labels, _ in metrics()}
HISTOGRAMS = {name for name, kind, _, _ in metrics() if kind == "histogram"}
KNOWN = METRICS | {
    f"{name}_{part}": METRICS[name] | ({"le"} if part == "bucket" else set())
    for name in HISTOGRAMS
    for part in ("bucket", "sum", "count")
}
# From the process, by the client library.
PROCESS = {"process_cpu_seconds_total": set[str](), "process_resident_memory_bytes": set[str]()}
SELECTOR = re.compile(r"\b((?:antiphon|process)_\w+)(?:\{([^}]*)\})?")
PANELS = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = [each["query"]["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query"]


def labels_in(query: str) -> set[str]:
    grouped = [name.strip() for group in re.findall(r"by \(([^)]*)\)", query) for name in group.split(",")]
    selected = [name for _, chosen in SELECTOR.findall(query) for name in re.findall(r"(\w+)\s*(?:=~|!=|=|!~)", chosen)]
    return {*grouped, *selected}


def test_every_query_names_metrics_and_labels_that_exist() -> None:
    known = KNOWN | PROCESS
    for query in (*QUERIES, *VARIABLES):
        used = [name for name, _ in SELECTOR.findall(query)]
        assert used, query
        assert [name for name in used if name not in known] == [], query
        # Each label is one of every metric in the query.
        for name in used:
            assert labels_in(query) <= known[name] | TARGET_LABELS, query


def test_every_query_is_closed() -> None:
    for query in QUERIES:
        for opened, closed in ("()", "{}", "[]"):
            assert query.count(opened) == query.count(closed), query
        histograms = [name for name, _ in SELECTOR.findall(query) if name in HISTOGRAMS]
        assert histograms == [], query


def test_every_metric_of_ours_is_on_it() -> None:
    shown = {re.sub("_(bucket|sum|count)$", "", name) for query in QUERIES for name, _ in SELECTOR.findall(query)}
    assert METRICS.keys() - shown == set()


def test_panels_do_not_overlap_and_say_what_they_are() -> None:
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        cells = cells_of(panel["gridPos"])
        assert not taken & cells
        taken |= cells
    assert all(panel["title"] for panel in PANELS)


def cells_of(place: dict[str, Any]) -> set[tuple[int, int]]:
    assert place["x"] + place["w"] <= 24
    return {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
