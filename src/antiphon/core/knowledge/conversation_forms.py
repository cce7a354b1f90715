"""In which form conversations are sent their tools, where that is not what is known of the model by now."""

# Those that were continued longest ago go first.
MOST_CONVERSATIONS = 1024


class ConversationForms:
    """The conversations that began with their tools in words, because it was not known yet whether the model sees others. They
    stay so: of a prompt in another form, nothing would be in the engine's cache."""

    def __init__(self, most: int = MOST_CONVERSATIONS) -> None:
        self._most = most
        # By model and key.
        self._in_words: dict[tuple[str, str], None] = {}

    def __bool__(self) -> bool:
        return bool(self._in_words)

    def begin_in_words(self, model: str, conversation: str) -> None:
        self.forget(model, conversation)
        self._in_words[model, conversation] = None
        if len(self._in_words) > self._most:
            del self._in_words[next(iter(self._in_words))]

    def is_in_words(self, model: str, conversation: str) -> bool:
        """Asked when it is continued."""
        if (model, conversation) not in self._in_words:
            return False
        self.begin_in_words(model, conversation)
        return True

    def forget(self, model: str, conversation: str) -> None:
        self._in_words.pop((model, conversation), None)
