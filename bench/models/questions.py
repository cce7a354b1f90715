"""Questions that one of ten tools answers, and a few that none does. The right call is known of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Tool = dict[str, Any]
# What an argument has to be: a number is equal, a text is contained, whatever its case is.
Expected = Mapping[str, str | float]


def _tool(name: str, description: str, **parameters: tuple[str, str]) -> Tool:
    properties = {each: {"type": kind, "description": words} for each, (kind, words) in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "function", "name": name, "description": description, "parameters": schema}


TOOLS = (
    _tool("get_weather", "Get the current weather in a city.", city=("string", "The city.")),
    _tool("get_time", "Get the current local time in a city.", city=("string", "The city.")),
    _tool(
        "convert_currency",
        "Convert an amount of money into another currency.",
        amount=("number", "The amount."),
        from_currency=("string", "Its currency, three letters, such as USD."),
        to_currency=("string", "The other currency, three letters."),
    ),
    _tool(
        "send_email",
        "Send an email.",
        to=("string", "The address of the recipient."),
        subject=("string", "The subject."),
        body=("string", "The text."),
    ),
    _tool(
        "create_event",
        "Add an event to the user's calendar.",
        title=("string", "The title."),
        date=("string", "The date, such as 2026-03-14."),
    ),
    _tool(
        "translate",
        "Translate a text into another language.",
        text=("string", "The text."),
        language=("string", "The language to translate into, in English."),
    ),
    _tool("set_timer", "Set a timer.", minutes=("number", "How many minutes until it rings.")),
    _tool("play_music", "Play music by an artist.", artist=("string", "The name of the artist.")),
    _tool("search_files", "Search the user's files by their content.", query=("string", "What to search for.")),
    _tool("get_stock_price", "Get the current price of a stock.", symbol=("string", "The ticker symbol, such as IBM.")),
)


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    # None: no tool answers it.
    tool: str | None
    arguments: Expected

    def is_answered_by(self, calls: list[tuple[str, Mapping[str, Any]]]) -> bool:
        if self.tool is None:
            return not calls
        if len(calls) != 1 or calls[0][0] != self.tool:
            return False
        given = calls[0][1]
        return all(name in given and _fits(given[name], wanted) for name, wanted in self.arguments.items())


def _fits(given: Any, wanted: str | float) -> bool:
    if isinstance(wanted, str):
        return isinstance(given, str) and wanted.casefold() in given.casefold()
    return isinstance(given, int | float) and not isinstance(given, bool) and given == wanted


def _question(text: str, tool: str | None = None, /, **arguments: str | float) -> Question:
    return Question(text, tool, arguments)


QUESTIONS = (
    _question("What is the weather in Paris?", "get_weather", city="paris"),
    _question("Is it raining in Oslo right now?", "get_weather", city="oslo"),
    _question("How warm is it in Cairo today?", "get_weather", city="cairo"),
    _question("Do I need an umbrella in London?", "get_weather", city="london"),
    _question("Tell me the weather in Buenos Aires.", "get_weather", city="buenos aires"),
    _question("What time is it in Tokyo?", "get_time", city="tokyo"),
    _question("Tell me the current time in New York.", "get_time", city="new york"),
    _question("Which time do they have in Sydney now?", "get_time", city="sydney"),
    _question("What's the local time in Lima?", "get_time", city="lima"),
    _question("Is it already past midnight in Delhi? Check the time there.", "get_time", city="delhi"),
    _question("Convert 100 USD to EUR.", "convert_currency", amount=100, from_currency="usd", to_currency="eur"),
    _question(
        "How many yen (JPY) do I get for 50 euros (EUR)?",
        "convert_currency",
        amount=50,
        from_currency="eur",
        to_currency="jpy",
    ),
    _question("What are 20 GBP in USD?", "convert_currency", amount=20, from_currency="gbp", to_currency="usd"),
    _question("Change 750 CHF into EUR for me.", "convert_currency", amount=750, from_currency="chf", to_currency="eur"),
    _question("I have 12.5 AUD. How much is that in CAD?", "convert_currency", amount=12.5, to_currency="cad"),
    _question(
        "Send an email to ana@example.com with the subject Lunch and the text: See you at noon.",
        "send_email",
        to="ana@example.com",
        subject="lunch",
        body="see you at noon",
    ),
    _question("Email bob@example.org that the meeting is cancelled.", "send_email", to="bob@example.org", body="cancel"),
    _question(
        "Write to support@example.net, subject Broken link, and say that the link on the start page is broken.",
        "send_email",
        to="support@example.net",
        subject="broken link",
        body="link",
    ),
    _question("Please mail tom@example.com: I will be late.", "send_email", to="tom@example.com", body="late"),
    _question(
        "Send the text Happy birthday! to eva@example.com by email, with the subject Greetings.",
        "send_email",
        to="eva@example.com",
        subject="greetings",
        body="happy birthday",
    ),
    _question("Put Dentist into my calendar for 2026-05-04.", "create_event", title="dentist", date="2026-05-04"),
    _question(
        "Add an event to my calendar: Team meeting on 2026-01-15.", "create_event", title="team meeting", date="2026-01-15"
    ),
    _question("Create a calendar event named Concert on 2026-08-21.", "create_event", title="concert", date="2026-08-21"),
    _question("Schedule Yoga for 2026-09-02 in my calendar.", "create_event", title="yoga", date="2026-09-02"),
    _question("Note Mum's birthday on 2026-12-01 in the calendar.", "create_event", title="birthday", date="2026-12-01"),
    _question("Translate 'good morning' into Spanish.", "translate", text="good morning", language="spanish"),
    _question("How do you say 'thank you' in Japanese? Translate it.", "translate", text="thank you", language="japanese"),
    _question("Translate this into German: Where is the station?", "translate", text="where is the station", language="german"),
    _question("Put 'I love cheese' into French.", "translate", text="i love cheese", language="french"),
    _question("Translate 'See you tomorrow' to Italian, please.", "translate", text="see you tomorrow", language="italian"),
    _question("Set a timer for 10 minutes.", "set_timer", minutes=10),
    _question("Wake me in 25 minutes with a timer.", "set_timer", minutes=25),
    _question("Start a 3 minute timer for my tea.", "set_timer", minutes=3),
    _question("Timer, 45 minutes.", "set_timer", minutes=45),
    _question("I need a timer that rings in 90 minutes.", "set_timer", minutes=90),
    _question("Play some music by Miles Davis.", "play_music", artist="miles davis"),
    _question("I want to hear ABBA.", "play_music", artist="abba"),
    _question("Put on songs of Nina Simone.", "play_music", artist="nina simone"),
    _question("Play Mozart.", "play_music", artist="mozart"),
    _question("Can you play something by The Beatles?", "play_music", artist="beatles"),
    _question("Find my files about the tax return.", "search_files", query="tax"),
    _question("Search my files for the word invoice.", "search_files", query="invoice"),
    _question("Which of my files mention Project Apollo?", "search_files", query="apollo"),
    _question("Look for recipes with pumpkin in my files.", "search_files", query="pumpkin"),
    _question("Where in my files did I write about the marathon?", "search_files", query="marathon"),
    _question("What is the price of the stock AAPL?", "get_stock_price", symbol="aapl"),
    _question("How much is one share of MSFT?", "get_stock_price", symbol="msft"),
    _question("Look up the stock price of NVDA.", "get_stock_price", symbol="nvda"),
    _question("Is TSLA up? Get its current price.", "get_stock_price", symbol="tsla"),
    _question("Give me the current stock price of IBM.", "get_stock_price", symbol="ibm"),
)

# Asked with the same tools. None of them helps.
PLAIN_QUESTIONS = (
    _question("Hello! Who are you?"),
    _question("Thank you, that was helpful."),
    _question("What is the capital of Italy?"),
    _question("Write one sentence about the sea."),
    _question("What is two plus two?"),
    _question("Name three colours."),
    _question("What does the word tiny mean?"),
    _question("Tell me a short joke."),
    _question("Who wrote Hamlet?"),
    _question("Give me a rhyme for cat."),
)
