"""Where what Antiphon sends to Anthropic's clients differs from what was recorded from Anthropic's servers, and why."""

from conformance.deviations import MemberDeviation

MEMBER_DEVIATIONS: tuple[MemberDeviation, ...] = (
    MemberDeviation("extra", "tool_use( in start)?", "toolset_name", "Declared by the SDK; no recorded request had a toolset."),
    MemberDeviation(
        "extra",
        "compaction|compaction_delta",
        "encrypted_content",
        "Declared by the SDK. It has what the compaction keeps beside its summary; recorded servers keep nothing.",
    ),
    MemberDeviation("null", "compaction|compaction_delta", "content", "The summary was cut off; no recorded one was."),
)
