"""The text of a mail: who wrote to whom about what, and its words. Files that are attached are named."""

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from antiphon.files.readers.html import html_to_text
from antiphon.files.readers.source import Source, TextParts, damaged

HEADERS = ("From", "To", "Cc", "Date", "Subject")
ATTACHED = "[attached: {name}]\n"
# How much of a mail is read: what is attached may be large.
MOST_BYTES = 64 * 1024 * 1024


def read(source: Source) -> str:
    mail = message_from_bytes(source.head(MOST_BYTES), policy=default)
    if not isinstance(mail, EmailMessage) or not mail.keys():
        raise damaged("mail", "it has no headers")
    text = TextParts(source)
    for name in HEADERS:
        if value := mail[name]:
            text.add(f"{name}: {value}\n")
    body = mail.get_body(("plain", "html"))
    if isinstance(body, EmailMessage):
        content = body.get_content()
        text.add("\n" + (html_to_text(content, source) if body.get_content_subtype() == "html" else content).strip() + "\n\n")
    for part in mail.iter_attachments():
        text.add(ATTACHED.format(name=part.get_filename() or part.get_content_type()))
    return text.text()
