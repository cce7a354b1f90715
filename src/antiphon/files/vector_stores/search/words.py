"""The words of chunks and of queries, and BM25 over an index that knows only which chunks have which term.

A term is a number that stands for a store, a word of it, and how much that word counts in a chunk. So a store has an index of
its own in a table of all stores: what others have does not slow its searches down, and does not change what is rare in it. A
query never reaches a database as text.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from antiphon.core.toolbox.word_ranking import damping
from antiphon.patterns import Pattern, late_pattern

# A chunk with so many words is neither long nor short: nobody knows the average while chunks are still added.
USUAL_LENGTH = 400
# How much a word counts is one of so many steps between 0 and 1. They have to fit into three bits.
LEVELS = 6
LEVEL_BITS = 3
# Of a query: more characters and more words are not looked at.
LONGEST_QUERY = 8_000
MOST_WORDS = 128
# Longer ones are no words: keys, images as text.
LONGEST_WORD = 64
# What is made of so many words is cached, if they are not longer: in scripts without spaces a "word" may be a whole chunk.
MOST_CACHED = 16_384
LONGEST_CACHED = 16

# They say nothing about what is asked for. In the chunks they are indexed like others: some queries have no other words.
COMMON = frozenset(
    "a about an and any are as at be been but by can could d did do does for from had has have he her his how i if in into is "
    "it its ll m me my no not of on or our re s she should so some t than that the their them then there these they this those "
    "to us ve was we were what when where which while who whom whose why will with would you your".split()
)

_WORD = Pattern(r"[\p{L}\p{M}\p{N}]+")
# Where camelCase and HTTPServer are split.
_HUMP = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts without spaces between words; and Korean, which adds its particles to them.
_UNSPACED = Pattern(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー]+")
_ACCENTED = Pattern(r"[\p{Latin}\p{Greek}\p{Cyrillic}]")


def words_of_text(text: str) -> list[str]:
    """As they are indexed. In scripts without spaces: each character, and each pair of them."""
    return [plain for word in _found(text) for plain in (_cached(word) if len(word) <= LONGEST_CACHED else _indexed(word))]


def words_of_query(query: str) -> list[str]:
    """As they are searched for, each once, without those that say nothing. In scripts without spaces: pairs of characters."""
    words = list(dict.fromkeys(plain for word in _found(query[:LONGEST_QUERY]) for plain in _asked(word)))
    specific = [word for word in words if word not in COMMON]
    return (specific or words)[:MOST_WORDS]


def _found(text: str) -> Iterator[str]:
    whole = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return (match.group() for match in _WORD.compiled.finditer(whole))


def _indexed(word: str) -> tuple[str, ...]:
    return tuple(plain for part in _parts(word) for plain in _spellings(part, singles=True))


# The chunks of a file have most words in common.
_cached = lru_cache(maxsize=MOST_CACHED)(_indexed)


def _asked(word: str) -> Iterable[str]:
    return (plain for part in _parts(word) for plain in _spellings(part, singles=False))


def _parts(word: str) -> Sequence[str]:
    """A name in camelCase is its parts, and itself."""
    parts = _HUMP.split(word)
    return parts if len(parts) == 1 else (*parts, word)


def _spellings(word: str, *, singles: bool) -> Iterator[str]:
    at = 0
    for run in _UNSPACED.compiled.finditer(word):
        yield from _plain(word[at : run.start()])
        yield from _pairs(run.group(), singles=singles)
        at = run.end()
    yield from _plain(word[at:])


def _pairs(run: str, *, singles: bool) -> Iterator[str]:
    if singles or len(run) == 1:
        yield from run
    yield from (run[at : at + 2] for at in range(len(run) - 1))


def _plain(word: str) -> Iterator[str]:
    if not word or len(word) > LONGEST_WORD:
        return
    folded = word.casefold()
    yield _stem(folded) if folded.isascii() else _without_accents(folded)


def _without_accents(word: str) -> str:
    """Where they are accents: in other scripts they are vowels."""
    if not _ACCENTED.match(word):
        return word
    plain = "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))
    return _stem(plain) if plain.isascii() else plain


# ---- English endings -------------------------------------------------------------------------------------------------

_VOWEL = late_pattern(r"[aeiouy]")


def _stem(word: str) -> str:
    """Near enough: chunks and queries are treated alike, and other languages lose little."""
    if len(word) < 4 or not word.isalpha():
        return word
    return _without_e(_without_tense(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_tense(word: str) -> str:
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWEL.search(rest):
            is_doubled = rest[-1] == rest[-2] and rest[-1] not in "aeiouylsz"
            return rest[:-1] if is_doubled else rest
    return f"{word[:-3]}y" if word.endswith("ied") and len(word) > 4 else word


def _without_e(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("e") and not word.endswith("ee") else word


# ---- terms -----------------------------------------------------------------------------------------------------------


def terms_of_text(store: str, text: str) -> list[int]:
    """What the index knows of a chunk: one term for each of its words."""
    words = words_of_text(text)
    damped = damping(len(words) / USUAL_LENGTH)
    return [_term(store, word) | int(LEVELS * times / (times + damped)) for word, times in Counter(words).items()]


def terms_of_word(store: str, word: str) -> list[int]:
    """One for each level: a chunk that has the word has one of them."""
    first = _term(store, word)
    return [first | level for level in range(LEVELS)]


def _term(store: str, word: str) -> int:
    """The number of the lowest level. It fits into the signed 64 bits of a database."""
    digest = hashlib.blake2b(f"{store}\0{word}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True) >> LEVEL_BITS << LEVEL_BITS


def level_of(term: int) -> int:
    return term & (1 << LEVEL_BITS) - 1


def share_of_level(level: int) -> float:
    """How much a word of this level counts, between 0 and 1."""
    return (level + 0.5) / LEVELS


def share_of_words(text: str, rarities: Mapping[str, float]) -> float:
    """How many of the words of a query the text has, between 0 and 1; a rare word counts more than a common one."""
    whole = sum(rarities.values())
    if not whole:
        return 0.0
    return sum(rarities[word] for word in rarities.keys() & set(words_of_text(text))) / whole
