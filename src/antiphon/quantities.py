"""Numbers of things, in the words of a message."""


def counted(number: float, noun: str) -> str:
    """Such as "1 request", "2 requests" and "0.5 seconds". The noun takes an s."""
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def allowed(most: int, noun: str) -> str:
    """Such as "1 tool is allowed" and "2 tools are allowed"."""
    return f"{counted(most, noun)} {'is' if most == 1 else 'are'} allowed"
