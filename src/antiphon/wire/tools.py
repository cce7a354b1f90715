"""The tools of the API that servers run: their names, and their members as a response lists them."""

from typing import Any

# Type of a tool that has several names → its name.
ALIASES: dict[str, str] = {
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
}

Members = dict[str, Any]

_RANKING: Members = {"ranker": "auto", "score_threshold": 0}
_LOCATION: Members = {"type": "approximate", "city": None, "country": None, "region": None, "timezone": None}
_PREVIEW: Members = {"search_context_size": "medium", "user_location": _LOCATION}
_WEB_SEARCH: Members = {"filters": None, **_PREVIEW}

# Type of a tool → the members that a response lists of it, with the values of those that were not given. An object has members
# of its own.
DEFAULTS: dict[str, Members] = {
    "mcp": {"allowed_tools": None, "require_approval": "always"},
    "file_search": {"filters": None, "max_num_results": 20, "ranking_options": _RANKING},
    "image_generation": {
        "background": "auto",
        "moderation": "auto",
        "output_compression": 100,
        "output_format": "png",
        "quality": "auto",
        "size": "auto",
    },
    "web_search": _WEB_SEARCH,
    "web_search_2025_08_26": _WEB_SEARCH,
    "web_search_preview": _PREVIEW,
    "web_search_preview_2025_03_11": _PREVIEW,
}
