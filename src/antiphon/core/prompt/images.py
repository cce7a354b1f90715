"""Images in data URLs, and those that tools made in earlier turns. A recording has only their length and a hash of them."""

import hashlib
import re

from msgspec import structs

from antiphon.core.checks.work import CheckOutcome

# In every one of them.
DATA_URL = b";base64,"

# Shorter ones are not worth it.
_IMAGE = re.compile(rb"(data:image/[A-Za-z0-9.+-]+;base64,)([A-Za-z0-9+/=_\\-]{200,})")
# The image of an item, and what is in every such item.
MADE_IMAGE = b'"image_generation_call"'
_MADE_IMAGE = re.compile(rb'("result"\s*:\s*")([A-Za-z0-9+/=]{200,})(?=")')


def may_have_images(data: bytes) -> bool:
    return DATA_URL in data or MADE_IMAGE in data


def without_images(data: bytes) -> bytes:
    """JSON with a short text in place of every image in a data URL, or in an item of image_generation."""
    data = _IMAGE.sub(_to_image_note, data) if DATA_URL in data else data
    return _MADE_IMAGE.sub(_to_image_note, data) if MADE_IMAGE in data else data


def _to_image_note(found: re.Match[bytes]) -> bytes:
    image = found[2]
    digest = hashlib.blake2b(image, digest_size=8).hexdigest()
    # In letters that base64 has too: it still is a data URL.
    note = f"not/kept/{len(image)}/characters/blake2b/{digest}"
    return found[1] + note.ljust(-(-len(note) // 4) * 4, "/").encode()


def outcome_without_images(outcome: CheckOutcome) -> CheckOutcome:
    if not outcome.images:
        return outcome
    return structs.replace(outcome, images=tuple(without_images(image.encode()).decode() for image in outcome.images))
