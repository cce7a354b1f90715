"""The sentences that Antiphon itself says to a model about its answers and calls, in one place, so that they are recognised."""

from antiphon.core.toolbox.tool_words import MUST

# ---- an answer that was rejected -------------------------------------------------------------------------------------

# As the result of the call, and after the answer.
BAD_CALL = "This call was not carried out: {complaint}. Correct it, and call the tool again."
BAD_ANSWER = "This answer cannot be used: {complaint}. Answer again, with nothing but JSON that follows the schema."

# As a user would say it: a small model repeats what a tool is said to have answered, and this is no answer to anything.
CALL_AGAIN = "The arguments of the last call were wrong: {complaint}. Call {name} once more, with other arguments."
CALL_INSTEAD = "The last call was wrong: {complaint}. Do the same by calling {names}, and with nothing else."
CALL_ANOTHER = "Do not call {name} now, because {complaint}. Do something else instead."
ANSWER_AGAIN = "The last answer was wrong: {complaint}. Answer once more, with nothing but JSON that follows the schema."

# ---- a call that the gateway does not run ----------------------------------------------------------------------------

NO_SUCH_TOOL = (
    "There is no tool {name} that can be called now. These can be called: {names}. Call one of them, or answer without a tool."
)
NO_TOOLS_LEFT = "There is no tool {name}, and no other one can be called now. Answer without a tool."
NO_CALLS_LEFT = (
    "This call was not carried out: at most {count} such calls may be made for one answer, and they have been made. "
    "Go on without it, with the results that you have."
)
CALLED_AGAIN = (
    "This call was not carried out: you have made it twice before, with the same arguments, and you have its results. "
    "Do not make it again. Answer now, in words, with what you know."
)
# To a small model, which would repeat the call, or apologize for it.
ANSWER_NOW = "Answer my question now, in a few sentences, with the results that you have."
# Where there is something to cite: by the end of its calls, it has forgotten what their results asked for.
AND_CITE = " Write the number of the result after each sentence that uses it, such as [1]."

# ---- a loop ----------------------------------------------------------------------------------------------------------

FAILED_AGAIN = (
    "This call has failed {count} times with the same arguments. Do not make it again. "
    "Use another tool or other arguments, or tell the user what is wrong."
)
SAME_AGAIN = (
    "This call was made {count} times with the same arguments, and the result was the same each time. Do not make it again: "
    "you have its result. Go on with the next step, or tell the user what you have found."
)

ALL_FAIL = (
    "All calls of the last {count} turns have failed with this same output. Do not call {names} now. "
    "Use another tool if there is one that can help, or answer with what you know."
)

# ---- a call that had to be approved ----------------------------------------------------------------------------------

NOT_APPROVED = "The user did not approve this call, so it was not made."
REASON = "The reason: {reason}"

# Each begins and ends with words of its own: what a model writes is compared with them from its first letter to its last.
OWN_WORDS = (
    BAD_CALL,
    BAD_ANSWER,
    CALL_AGAIN,
    CALL_INSTEAD,
    CALL_ANOTHER,
    ANSWER_AGAIN,
    FAILED_AGAIN,
    SAME_AGAIN,
    ALL_FAIL,
    NO_SUCH_TOOL,
    NO_TOOLS_LEFT,
    NO_CALLS_LEFT,
    CALLED_AGAIN,
    MUST,
)
