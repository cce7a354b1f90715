"""The protocols that clients may speak."""

from collections.abc import Sequence

from antiphon.core.protocols.chat.protocol import CHAT
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.protocol import RESPONSES

# The first one answers whatever belongs to none of the others.
PROTOCOLS: Sequence[ClientProtocol] = (RESPONSES, MESSAGES, CHAT)
