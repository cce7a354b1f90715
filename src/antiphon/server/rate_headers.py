"""The headers that say how many requests a key may still send, as OpenAI's clients know them."""

from antiphon.gateway.limits.request_rates import RateState


def rate_headers(state: RateState | None) -> dict[str, str]:
    """None: there is no limit, and nothing to say."""
    if state is None:
        return {}
    return {
        "x-ratelimit-limit-requests": str(state.limit),
        "x-ratelimit-remaining-requests": str(state.remaining),
        "x-ratelimit-reset-requests": duration(state.reset),
    }


def duration(seconds: float) -> str:
    """Such as 1m30s, 12s or 250ms."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
