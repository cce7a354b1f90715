"""Texts ranked by the words that they share with a query: BM25, as tools and chunks of files use it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from antiphon.patterns import late_pattern

# How soon a word that is repeated stops to count, and how much the length of a text counts.
SATURATION = 1.2
LENGTH_SHARE = 0.75


def rarity(having: int, texts: int) -> float:
    """How much a word weighs that so many of the texts have. A count that is out of date may be larger than all of them."""
    return math.log(1 + (max(0, texts - having) + 0.5) / (having + 0.5))


def damping(length: float) -> float:
    """`length`: that of the text, divided by the usual one."""
    return SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length)


# Of a text and of a query, in characters: enough for any description, and a bound on the work.
LONGEST_TEXT = 600
LONGEST_QUERY = 600

# Words that every description has.
COMMON = frozenset(
    "a an and are as at be by can could do does for from how i if in into is it its me my need of on or please should some "
    "that the their them then there these they this to tool tools us use used want was we what when which will with would "
    "you your".split()
)
_WORD = late_pattern(r"[^\W_]+")
# Where camelCase and HTTPServer are split.
_HUMP = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts without spaces between words.
_UNSPACED = late_pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")


def words_of(text: str) -> list[str]:
    """Lower case, singular, without common words. A name in camelCase is its parts, and itself."""
    return [plain for word in _WORD.findall(text) for plain in _plain(word)]


# Descriptions have most words in common.
@lru_cache(maxsize=4096)
def _plain(word: str) -> tuple[str, ...]:
    parts = _HUMP.split(word)
    whole = parts if len(parts) == 1 else (*parts, word)
    return tuple(plain for part in whole for plain in _split(part.casefold()) if plain not in COMMON)


def _split(word: str) -> Iterable[str]:
    runs = _UNSPACED.findall(word)
    if not runs:
        return (_singular(word),)
    # Pairs of characters, as those scripts are usually searched.
    return (run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1)))


def _singular(word: str) -> str:
    """Near enough: both sides are treated alike."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def scores(query: str, texts: Sequence[Sequence[str]]) -> list[float]:
    """How well each text, as its words, answers the query; 0 if they share no word. Linear in the length of all of them."""
    wanted = set(words_of(query[:LONGEST_QUERY]))
    counts = [Counter(filter(wanted.__contains__, text)) for text in texts]
    having = Counter(word for count in counts for word in count)
    rarities = {word: rarity(number, len(texts)) for word, number in having.items()}
    usual = sum(map(len, texts)) / max(1, len(texts)) or 1.0
    return [_score(count, rarities, damping(len(text) / usual)) for count, text in zip(counts, texts, strict=True)]


def _score(count: Counter[str], rarities: dict[str, float], damped: float) -> float:
    return sum(rarities[word] * times * (SATURATION + 1) / (times + damped) for word, times in count.items())
