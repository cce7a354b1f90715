"""Questions that one of ten tools answers, that need two calls, or that no tool answers. The right calls are known of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.core.exchange.answer_lessons import is_garbled
from bench.models.judges import Half

Tool = dict[str, Any]
# What an argument has to be: a number is equal, a text is contained, whatever its case is.
Expected = Mapping[str, str | float]


def make_tool(name: str, description: str, /, **parameters: tuple[str, str]) -> Tool:
    properties = {each: {"type": kind, "description": words} for each, (kind, words) in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "function", "name": name, "description": description, "parameters": schema}


TOOLS = (
    make_tool("get_weather", "Get the current weather in a city.", city=("string", "The city.")),
    make_tool("get_time", "Get the current local time in a city.", city=("string", "The city.")),
    make_tool(
        "convert_currency",
        "Convert an amount of money into another currency.",
        amount=("number", "The amount."),
        from_currency=("string", "Its currency, three letters, such as USD."),
        to_currency=("string", "The other currency, three letters."),
    ),
    make_tool(
        "send_email",
        "Send an email.",
        to=("string", "The address of the recipient."),
        subject=("string", "The subject."),
        body=("string", "The text."),
    ),
    make_tool(
        "create_event",
        "Add an event to the user's calendar.",
        title=("string", "The title."),
        date=("string", "The date, such as 2026-03-14."),
    ),
    make_tool(
        "translate",
        "Translate a text into another language.",
        text=("string", "The text."),
        language=("string", "The language to translate into, in English."),
    ),
    make_tool("set_timer", "Set a timer.", minutes=("number", "How many minutes until it rings.")),
    make_tool("play_music", "Play music by an artist.", artist=("string", "The name of the artist.")),
    make_tool("search_files", "Search the user's files by their content.", query=("string", "What to search for.")),
    make_tool("get_stock_price", "Get the current price of a stock.", symbol=("string", "The ticker symbol, such as IBM.")),
)


Calls = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    # The calls that answer it, in any order; none: it is answered in words.
    calls: tuple[tuple[str, Expected], ...] = ()
    half: Half = "tuning"

    @property
    def kind(self) -> str:
        return ("in words", "one call", "two calls")[len(self.calls)]

    @property
    def tools(self) -> tuple[Tool, ...]:
        return TOOLS if self.half == "tuning" else OFFICE_TOOLS

    def is_answered_by(self, calls: Calls, words: str = "") -> bool:
        """A text that has the shape of a call is no answer in words: nobody makes that call."""
        if not self.calls:
            return not calls and bool(words.strip()) and not is_garbled(words, ())
        return others(calls, self.calls) == []


def others(calls: Calls, wanted: Sequence[tuple[str, Expected]]) -> list[tuple[str, Mapping[str, Any]]] | None:
    """The calls beside those that are wanted, each of which was made once. None: one of them was not made."""
    left = list(calls)
    for each in wanted:
        if (made := next((call for call in left if is_as(call, each)), None)) is None:
            return None
        left.remove(made)
    return left


def is_as(call: tuple[str, Mapping[str, Any]], wanted: tuple[str, Expected]) -> bool:
    return call[0] == wanted[0] and has(call[1], wanted[1])


def has(given: Mapping[str, Any], wanted: Expected) -> bool:
    return all(name in given and fits(given[name], value) for name, value in wanted.items())


def fits(given: Any, wanted: str | float) -> bool:
    if isinstance(wanted, bool):
        return given is wanted
    if isinstance(wanted, str):
        return isinstance(given, str) and wanted.casefold() in given.casefold()
    return isinstance(given, int | float) and not isinstance(given, bool) and given == wanted


def _question(text: str, tool: str | None = None, /, **arguments: str | float) -> Question:
    return Question(text, ((tool, arguments),) if tool is not None else ())


def _final(text: str, *calls: tuple[str, Expected]) -> Question:
    return Question(text, calls, "final")


def _two(text: str, *calls: tuple[str, Expected]) -> Question:
    return Question(text, calls)


def _call(tool: str, /, **arguments: str | float) -> tuple[str, Expected]:
    return tool, arguments


# ---- for tuning ------------------------------------------------------------------------------------------------------

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
    _question("How many days does a week have?"),
    _question("Good morning!"),
    _question("What is the opposite of hot?"),
    _question("Explain in one sentence what a compiler is."),
    _question("Is a whale a fish?"),
    _question("What can you do?"),
    _question("Write a haiku about rain."),
    _question("Which planet is the largest one of our solar system?"),
    _question("What is the plural of mouse?"),
    _question("Give me a name for a small brown dog."),
)

PAIRS = (
    _two("What is the weather in Paris and in Rome?", _call("get_weather", city="paris"), _call("get_weather", city="rome")),
    _two("Tell me the time in Tokyo and in Lima.", _call("get_time", city="tokyo"), _call("get_time", city="lima")),
    _two("Get the stock prices of AAPL and of IBM.", *(_call("get_stock_price", symbol=each) for each in ("aapl", "ibm"))),
    _two("Set a timer for 5 minutes and another one for 12 minutes.", *(_call("set_timer", minutes=each) for each in (5, 12))),
    _two(
        "What is the weather in Oslo, and what time is it there?",
        *(_call(each, city="oslo") for each in ("get_weather", "get_time")),
    ),
    _two("Set a timer for 20 minutes and play ABBA.", _call("set_timer", minutes=20), _call("play_music", artist="abba")),
    _two(
        "Translate 'good night' into French and into Spanish.",
        *(_call("translate", text="good night", language=each) for each in ("french", "spanish")),
    ),
    _two(
        "Add Dentist on 2026-05-04 to my calendar, and Yoga on 2026-05-05.",
        _call("create_event", title="dentist", date="2026-05-04"),
        _call("create_event", title="yoga", date="2026-05-05"),
    ),
    _two(
        "Search my files for tax, and look up the price of NVDA.",
        _call("search_files", query="tax"),
        _call("get_stock_price", symbol="nvda"),
    ),
    _two(
        "Convert 10 USD to EUR and 30 GBP to EUR.",
        _call("convert_currency", amount=10, to_currency="eur"),
        _call("convert_currency", amount=30, to_currency="eur"),
    ),
)

# ---- only for the table ----------------------------------------------------------------------------------------------

OFFICE_TOOLS = (
    make_tool("send_message", "Send a chat message to a person.", to=("string", "The person."), text=("string", "The text.")),
    make_tool(
        "create_order",
        "Order articles for the office.",
        article=("string", "The article."),
        quantity=("integer", "How many of it."),
    ),
    make_tool("book_room", "Book a meeting room.", room=("string", "The room."), hour=("integer", "The hour, from 0 to 23.")),
    make_tool("find_phone_number", "Find the phone number of a person.", name=("string", "The name of the person.")),
    make_tool("read_sensor", "Read the value of a sensor.", sensor=("string", "The name of the sensor.")),
    make_tool("restart_server", "Restart a server.", server=("string", "The name of the server.")),
    make_tool("count_words", "Count the words of a document.", document=("string", "The name of the document.")),
    make_tool(
        "add_expense", "Enter an expense.", purpose=("string", "What it was for."), amount=("number", "The amount in euros.")
    ),
    make_tool("open_website", "Open a website in the browser.", url=("string", "The address.")),
    make_tool("get_route", "Get a route.", origin=("string", "Where it begins."), destination=("string", "Where it ends.")),
)

FINAL_QUESTIONS = (
    _final("Tell Greta that lunch is ready.", _call("send_message", to="greta", text="lunch")),
    _final("Send Hugo the message: Call me back.", _call("send_message", to="hugo", text="call me back")),
    _final("Write to Ines that the train is late.", _call("send_message", to="ines", text="late")),
    _final("Order 12 pencils.", _call("create_order", article="pencil", quantity=12)),
    _final("We need three more chairs. Order them.", _call("create_order", article="chair", quantity=3)),
    _final("Please order 200 envelopes for us.", _call("create_order", article="envelope", quantity=200)),
    _final("Book the room Atlas at 15 o'clock.", _call("book_room", room="atlas", hour=15)),
    _final("I need the meeting room Birch at 9.", _call("book_room", room="birch", hour=9)),
    _final("Reserve Cedar at 11 for a meeting.", _call("book_room", room="cedar", hour=11)),
    _final("What is the phone number of Karl Weiss?", _call("find_phone_number", name="karl weiss")),
    _final("How can I reach Mona Silva by phone?", _call("find_phone_number", name="mona silva")),
    _final("Find the number of Otto.", _call("find_phone_number", name="otto")),
    _final("What does the sensor attic show?", _call("read_sensor", sensor="attic")),
    _final("Read the sensor boiler-2.", _call("read_sensor", sensor="boiler-2")),
    _final("Check the value of the sensor door.", _call("read_sensor", sensor="door")),
    _final("Restart the server db1.", _call("restart_server", server="db1")),
    _final("The server web3 hangs. Restart it.", _call("restart_server", server="web3")),
    _final("Can you reboot mail-old?", _call("restart_server", server="mail-old")),
    _final("How many words does the document thesis have?", _call("count_words", document="thesis")),
    _final("Count the words of letter.docx.", _call("count_words", document="letter.docx")),
    _final("How long is report-7, in words?", _call("count_words", document="report-7")),
    _final("Enter 18 euros for a taxi.", _call("add_expense", purpose="taxi", amount=18)),
    _final("I paid 42.5 euros for stamps. Note it as an expense.", _call("add_expense", purpose="stamp", amount=42.5)),
    _final("Add an expense: hotel, 230 euros.", _call("add_expense", purpose="hotel", amount=230)),
    _final("Open example.org.", _call("open_website", url="example.org")),
    _final("Show me the website https://example.com/news.", _call("open_website", url="example.com/news")),
    _final("Go to www.example.net in the browser.", _call("open_website", url="example.net")),
    _final("How do I get from Bern to Basel?", _call("get_route", origin="bern", destination="basel")),
    _final("Route from the airport to Main Street, please.", _call("get_route", origin="airport", destination="main street")),
    _final("Find the way from Leeds to Hull.", _call("get_route", origin="leeds", destination="hull")),
)
FINAL_PAIRS = (
    _final(
        "Tell Greta and Hugo that lunch is ready.",
        *(_call("send_message", to=each, text="lunch") for each in ("greta", "hugo")),
    ),
    _final("Restart db1 and db2.", *(_call("restart_server", server=each) for each in ("db1", "db2"))),
    _final(
        "Order 5 lamps and 2 desks.",
        _call("create_order", article="lamp", quantity=5),
        _call("create_order", article="desk", quantity=2),
    ),
    _final("Read the sensors attic and cellar.", *(_call("read_sensor", sensor=each) for each in ("attic", "cellar"))),
    _final(
        "Find the phone numbers of Otto and of Mona.", *(_call("find_phone_number", name=each) for each in ("otto", "mona"))
    ),
    _final(
        "Book Atlas at 10 and Birch at 14.",
        _call("book_room", room="atlas", hour=10),
        _call("book_room", room="birch", hour=14),
    ),
    _final(
        "Enter two expenses: taxi 18 euros, lunch 25 euros.",
        _call("add_expense", purpose="taxi", amount=18),
        _call("add_expense", purpose="lunch", amount=25),
    ),
    _final(
        "Count the words of thesis and of summary.", *(_call("count_words", document=each) for each in ("thesis", "summary"))
    ),
    _final(
        "Book the room Cedar at 16 and tell Ines about the meeting.",
        _call("book_room", room="cedar", hour=16),
        _call("send_message", to="ines"),
    ),
    _final(
        "Open example.org, and restart the server web3.",
        _call("open_website", url="example.org"),
        _call("restart_server", server="web3"),
    ),
)
FINAL_PLAIN_QUESTIONS = (
    _final("Hi there, how are you?"),
    _final("Many thanks for your help."),
    _final("What is the capital of Peru?"),
    _final("Write one sentence about a mountain."),
    _final("What is seven times six?"),
    _final("Name three animals."),
    _final("What does the word swift mean?"),
    _final("Who painted the Mona Lisa?"),
    _final("Give me a synonym for happy."),
    _final("How many hours does a day have?"),
    _final("Good evening!"),
    _final("What is the opposite of early?"),
    _final("Explain in one sentence what a database is."),
    _final("Is a tomato a fruit?"),
    _final("Which tools do you have?"),
    _final("Write two lines of a poem about autumn."),
    _final("Which ocean is the largest one?"),
    _final("What is the past tense of go?"),
    _final("Suggest a name for a sailing boat."),
    _final("Tell me something interesting about bees."),
)

ALL_QUESTIONS = (*QUESTIONS, *PAIRS, *PLAIN_QUESTIONS, *FINAL_QUESTIONS, *FINAL_PAIRS, *FINAL_PLAIN_QUESTIONS)
