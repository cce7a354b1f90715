"""What of a request the answer to it depends on, beside the request that it was read to."""

from msgspec import Struct, field

from antiphon.core.protocols.messages.places import Places


class MessageFacts(Struct):
    places: Places = field(default_factory=Places)
    # Thoughts are shown without their text, by their signatures alone.
    hides_thoughts: bool = False
