"""What the questions are worth: each has its document, and those in other words have few of the document's own."""

import re
from collections import Counter

from retrieval.corpus import documents, questions

# Words that say nothing about a text.
EMPTY = set(
    """
    a about above after again all although an and another any are as at be because been before but by called can cannot
    come comes did do does down each either else end every everybody ever for forever from get gets give gives has have he
    him himself his how if in inside instead into is it its itself like makes many me more most must my never no nobody
    not nothing of on once one only or other others out over own past rather same since so some somebody something than
    that the their them then there they this those to two until up us using way were what when where whether which while
    who why will with yet you your
    """.split()
)


def content_words(text: str) -> set[str]:
    """Without endings, roughly."""
    return {re.sub(r"(ing|ed|es|s|e)$", "", word) for word in re.findall(r"[a-z0-9']+", text.lower()) if word not in EMPTY}


def shared(question: str, document: str) -> float:
    asked = content_words(question)
    return len(asked & content_words(document)) / len(asked)


def test_there_are_enough_documents_and_questions_of_each_kind() -> None:
    assert len(documents()) == 541
    kinds = Counter(question.kind for question in questions())
    assert set(kinds) == {"words", "detail", "paraphrase"}
    assert min(kinds.values()) >= 35
    assert sum(kinds.values()) >= 120


def test_every_question_has_a_document_that_answers_it_and_is_asked_once() -> None:
    assert [each for each in questions() if each.document not in documents()] == []
    assert len({each.text for each in questions()}) == len(questions())


def test_questions_in_other_words_share_few_words_with_their_documents() -> None:
    shares = {
        kind: [shared(each.text, documents()[each.document]) for each in questions() if each.kind == kind]
        for kind in ("words", "detail", "paraphrase")
    }
    means = {kind: sum(values) / len(values) for kind, values in shares.items()}
    assert means["words"] > 0.7
    assert means["words"] > means["detail"] > means["paraphrase"]
    assert means["paraphrase"] < 0.35
