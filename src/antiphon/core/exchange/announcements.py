"""Does a text end with words that announce a call? "I will now run the tests." does, "I have run the tests." does not.

Only the last sentence is looked at, or the one before a block of code at the end, and only its beginning counts: who is going
to act, and the verb. A question, an offer and a condition announce nothing. Measured on real endings: docs/small_models.md.
"""

import re

# Of the text. What is longer than this is not looked at: an announcement is short.
LONGEST_END = 400

# What models say that they will do with a tool. What is done in words (explain, say, help) is not among them.
VERBS = (
    "add|adjust|analy[sz]e|append|apply|build|call|change|check|clean|clone|commit|compile|configure|confirm|continue"
    "|copy|correct|count|create|debug|delete|deploy|double-check|download|edit|examine|execute|explore|extract|fetch"
    "|find|fix|gather|generate|get|go ahead|grep|identify|implement|insert|inspect|install|investigate|invoke|list|load"
    "|locate|look|make|modify|move|navigate|open|parse|perform|proceed|pull|push|put|query|read|recheck|refactor|remove"
    "|rename|replace|re-?run|restart|retrieve|retry|review|rewrite|run|save|scan|search|see (?:if|what|how)|set|start"
    "|submit|take a look|test|trace|try|update|upgrade|use|validate|verify|view|write"
)
GERUNDS = (
    "adding|analy[sz]ing|applying|building|calling|changing|checking|compiling|creating|deleting|editing|examining"
    "|executing|fetching|fixing|implementing|inspecting|installing|listing|looking (?:at|for|in|into|through)|moving"
    "|opening|reading|removing|renaming|replacing|retrieving|reviewing|running|scanning|searching|testing|trying"
    "|updating|verifying|viewing|writing"
)
SOON = (
    "(?: (?:now|next|first|then|also|just|quickly|currently|go ahead and|(?:start|begin|proceed) (?:by|to)"
    "|proceed with|try to))*"
)
# The beginnings of last sentences that announce a call.
FORMS: tuple[str, ...] = (
    # English
    rf"(?:i|we)(?:['’]ll| will| shall|(?:['’]m| am|['’]re| are) (?:going|about) to){SOON} (?:{VERBS}|{GERUNDS})\b",
    rf"let(?:['’]s| me| us){SOON} (?:{VERBS}|{GERUNDS})\b",
    rf"i{SOON} need to{SOON} (?:{VERBS})\b",
    rf"i(?:['’]m| am){SOON} (?:{GERUNDS})\b",
    rf"(?:now )?(?:{GERUNDS})\b[^.!?]{{0,200}}(?:\bnow\b|:|\.\.\.|…)",
    r"please (?:wait (?:a moment|while i)|give me a (?:moment|minute))\b",
    # German, French, Spanish, Portuguese, Italian, Chinese
    r"ich (?:werde|führe|prüfe|starte|schaue|lese|öffne|erstelle|ändere|behebe)\b",
    r"lass(?:en sie)? (?:mich|uns)\b",
    r"je vais\b",
    r"laisse[zr]?-moi\b",
    r"voy a\b",
    r"(?:déjame|permíteme)\b",
    r"(?:eu )?vou\b",
    r"deixe-me\b",
    r"(?:fammi|lasciami)\b",
    r"(?:现在|接下来|首先|然后)?[，,]?(?:让我|我将|我会|我来|我们来)",
)
# What may precede it, and says nothing about who acts.
LEADS = (
    "ok(?:ay)?|sure|yes|no|great|good|right|alright|perfect|certainly|absolutely|of course|understood|got it|now|next"
    "|first|then|so|finally|after that|with that|also|and|but|jetzt|nun|als nächstes|zuerst|maintenant|d['’]abord|ahora"
    "|primero|agora|ora"
)
_ANNOUNCES = re.compile(rf"(?:(?:{LEADS})\b[,:!.]? ?){{0,4}}(?:to [^,.:]{{1,120}}, )?(?:{'|'.join(FORMS)})", re.IGNORECASE)
# An offer, a condition, words for the user, or something that is not done now.
_ONLY_OFFERED = re.compile(
    r"\b(?:(?:if|once|when|whenever|unless|after|as soon as) (?:you|it|this|that|the)|would you|let me know|feel free|by asking"
    r"|to ask|you (?:can|could|should|need)|your (?:approval|confirmation|permission)|wenn|falls|sobald|bitte"
    r"|si (?:vous|tu|quieres|desea)|quand|cuando|se (?:quiser|vuoi))\b|如果|请|吗",
    re.IGNORECASE,
)
# Where one sentence ends and another begins.
_END = re.compile(r"[.!?;]['\")*_]{0,4}\s|[。！？；]|\n")
FENCE = "```"


def announces_call(text: str) -> bool:
    """`text`: an answer without a call, although it could have made one."""
    sentence = last_sentence(text)
    if not sentence or sentence.rstrip("*_)\"' ").endswith(("?", "？")):
        return False
    return _ANNOUNCES.match(sentence) is not None and _ONLY_OFFERED.search(sentence) is None


def last_sentence(text: str) -> str:
    """Without the marks of a list or of emphasis around it. Of a text that ends with a block of code, the one before it."""
    end = text[-LONGEST_END:].rstrip()
    if end.endswith(FENCE):
        before, fence, rest = end.removesuffix(FENCE).rpartition(FENCE)
        # One fence alone opens a block that has nothing in it.
        end = (before if fence else rest).rstrip()
    begins = 0
    for found in _END.finditer(end):
        if end[found.end() :].strip("*_)\"' \n"):
            begins = found.end()
    return end[begins:].strip(" \t\r\n-*•>#_")
