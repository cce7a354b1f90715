"""Numbers of things, in the words of a message."""


def counted(number: int, noun: str) -> str:
    """Such as "1 request" and "2 requests". The noun takes an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
