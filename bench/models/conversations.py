"""Conversations of three turns with the function tools of a small world: shops, rooms, parcels. Of each turn, the calls that it
needs are known, and what the answer after them has to say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.models.judges import Half
from bench.models.questions import Expected, Tool, is_as, make_tool, others

Wanted = tuple[str, Expected]
Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class World:
    """The tools of a conversation, and what they report."""

    name: str
    half: Half
    tools: tuple[Tool, ...]
    # The tools that change something: made twice, a call of theirs is a mistake that somebody pays for.
    acts: frozenset[str]
    # By tool: a text that the arguments have in them, and the result then. An empty text counts for all others.
    results: Mapping[str, Mapping[str, str]]

    def result_of(self, call: Call) -> str:
        name, arguments = call
        given = msgspec.json.encode(arguments).decode().casefold()
        results = self.results.get(name, {"": f"There is no tool {name}."})
        return next((result for text, result in results.items() if text in given), "Not found.")


@dataclass(frozen=True, slots=True)
class Turn:
    prompt: str
    calls: tuple[Wanted, ...] = ()
    # The answer has one of these texts; any answer, if there are none.
    says: tuple[str, ...] = ()

    def is_right(self, calls: list[Call], words: str, acts: frozenset[str], before: Sequence[Call] = ()) -> bool:
        """Every call that is wanted was made once, and nothing else was changed. Looking something up again does no harm; what
        was looked up `before`, in an earlier turn, is known."""
        known = [each for each in self.calls if each[0] not in acts and any(is_as(call, each) for call in before)]
        left = others(calls, [each for each in self.calls if each not in known])
        said = not self.says or any(text.casefold() in words.casefold() for text in self.says)
        return left is not None and bool(words.strip()) and said and not any(name in acts for name, _ in left)


@dataclass(frozen=True, slots=True)
class Conversation:
    world: World
    name: str
    turns: tuple[Turn, Turn, Turn]


def _wants(tool: str, /, **arguments: str | float) -> Wanted:
    return tool, arguments


def _turn(prompt: str, *calls: Wanted, says: str = "") -> Turn:
    """`says`: texts with | between them."""
    return Turn(prompt, calls, tuple(filter(None, says.split("|"))))


def _conversations(world: World, *turns: tuple[Turn, Turn, Turn]) -> tuple[Conversation, ...]:
    return tuple(Conversation(world, f"{world.name}-{number}", each) for number, each in enumerate(turns, 1))


# ---- for tuning ------------------------------------------------------------------------------------------------------

SHOP = World(
    "shop",
    "tuning",
    (
        make_tool("find_customer", "Find a customer by name.", name=("string", "The name of the customer.")),
        make_tool(
            "create_order",
            "Order a product for a customer.",
            customer_id=("string", "The id of the customer."),
            product=("string", "The product."),
            quantity=("integer", "How many."),
        ),
        make_tool("order_status", "Get the status of an order.", order_id=("string", "The id of the order.")),
        make_tool(
            "send_message",
            "Send a message to a customer.",
            customer_id=("string", "The id of the customer."),
            text=("string", "The text of the message."),
        ),
    ),
    frozenset({"create_order", "send_message"}),
    {
        "find_customer": {
            "lopez": '{"customer_id": "C-104", "name": "Maria Lopez", "city": "Madrid"}',
            "novak": '{"customer_id": "C-220", "name": "Jan Novak", "city": "Brno"}',
            "": '{"customers": []}',
        },
        "create_order": {"": '{"order_id": "O-77", "status": "created"}'},
        "order_status": {"o-31": '{"order_id": "O-31", "status": "shipped"}', "": '{"order_id": "O-77", "status": "created"}'},
        "send_message": {"": '{"sent": true}'},
    },
)
LIGHTS = World(
    "lights",
    "tuning",
    (
        make_tool("list_lamps", "List the lamps of a room.", room=("string", "The room.")),
        make_tool("switch_lamp", "Switch a lamp on or off.", lamp=("string", "The lamp."), on=("boolean", "On or off.")),
        make_tool("get_temperature", "Get the temperature of a room.", room=("string", "The room.")),
        make_tool("set_heating", "Set the heating of a room.", room=("string", "The room."), degrees=("number", "Degrees.")),
    ),
    frozenset({"switch_lamp", "set_heating"}),
    {
        "list_lamps": {"kitchen": '["ceiling", "sink"]', "": '["desk", "shelf"]'},
        "switch_lamp": {"": "ok"},
        "get_temperature": {"kitchen": "19.5", "office": "17", "": "21"},
        "set_heating": {"": "ok"},
    },
)
TICKETS = World(
    "tickets",
    "tuning",
    (
        make_tool("search_tickets", "Search the tickets of the help desk.", query=("string", "Words to search for.")),
        make_tool("get_ticket", "Get a ticket.", number=("integer", "The number of the ticket.")),
        make_tool("close_ticket", "Close a ticket.", number=("integer", "The number of the ticket.")),
        make_tool(
            "add_comment",
            "Comment on a ticket.",
            number=("integer", "The number."),
            text=("string", "The text of the comment."),
        ),
    ),
    frozenset({"close_ticket", "add_comment"}),
    {
        "search_tickets": {
            "printer": '[{"number": 412, "title": "Printer shows error E7"}]',
            "vpn": '[{"number": 388, "title": "VPN is slow"}, {"number": 395, "title": "VPN password"}]',
            "": "[]",
        },
        "get_ticket": {
            "412": "Ticket 412: the printer shows error E7. Error E7 means that the paper tray is empty. Open since Monday.",
            "": "Ticket 388: the VPN is slow in the evening. Assigned to Rita.",
        },
        "close_ticket": {"": "closed"},
        "add_comment": {"": "comment added"},
    },
)
RECIPES = World(
    "recipes",
    "tuning",
    (
        make_tool("find_recipe", "Find a recipe.", dish=("string", "The dish.")),
        make_tool("add_to_shopping_list", "Put an item on the shopping list.", item=("string", "The item.")),
        make_tool("show_shopping_list", "Show the shopping list.", person=("string", "Whose list it is, such as me.")),
        make_tool("set_timer", "Set a timer.", minutes=("number", "Minutes.")),
    ),
    frozenset({"add_to_shopping_list", "set_timer"}),
    {
        "find_recipe": {
            "pancake": "Pancakes: flour, 3 eggs, milk. Bake each for 4 minutes.",
            "soup": "Tomato soup: tomatoes, onion, cream. Cook for 25 minutes.",
            "": "No recipe of this name.",
        },
        "add_to_shopping_list": {"": "added"},
        "show_shopping_list": {"": "bread, butter"},
        "set_timer": {"": "The timer is set."},
    },
)
BOOKS = World(
    "books",
    "tuning",
    (
        make_tool("find_book", "Find a book in the library.", title=("string", "The title.")),
        make_tool("reserve_book", "Reserve a book.", book_id=("string", "The id of the book.")),
        make_tool("renew_loan", "Renew the loan of a book.", book_id=("string", "The id of the book.")),
        make_tool("opening_hours", "Get the opening hours of the library.", day=("string", "The day of the week.")),
    ),
    frozenset({"reserve_book", "renew_loan"}),
    {
        "find_book": {
            "dune": '{"book_id": "B-9", "title": "Dune", "available": false}',
            "emma": '{"book_id": "B-31", "title": "Emma", "available": true}',
            "": '{"error": "no such book"}',
        },
        "reserve_book": {"": '{"reserved": true, "place_in_queue": 2}'},
        "renew_loan": {"b-5": '{"renewed": false, "reason": "reserved by somebody else"}', "": '{"renewed": true}'},
        "opening_hours": {"saturday": "10:00 to 14:00", "": "9:00 to 18:00"},
    },
)
NOTEBOOK = World(
    "notebook",
    "tuning",
    (
        make_tool("create_note", "Create a note.", title=("string", "The title."), text=("string", "The text.")),
        make_tool("read_note", "Read a note.", title=("string", "The title.")),
        make_tool("delete_note", "Delete a note.", title=("string", "The title.")),
    ),
    frozenset({"create_note", "delete_note"}),
    {
        "create_note": {"": "created"},
        "read_note": {"garden": "Water the roses on Friday.", "": "There is no note of this title."},
        "delete_note": {"old": "deleted", "": "deleted"},
    },
)

TUNING = (
    *_conversations(
        SHOP,
        (
            _turn("Which id does the customer Maria Lopez have?", _wants("find_customer", name="lopez"), says="C-104"),
            _turn("Order two lamps for her.", _wants("create_order", customer_id="C-104", product="lamp", quantity=2)),
            _turn("Thank you. What was the id of that order again?", says="O-77"),
        ),
        (
            _turn(
                "Send the customer C-220 this message: Your parcel has arrived.",
                _wants("send_message", customer_id="C-220", text="parcel"),
            ),
            _turn("What is the status of order O-31?", _wants("order_status", order_id="O-31"), says="shipped"),
            _turn("Tell the customer C-220 that it is shipped.", _wants("send_message", customer_id="C-220", text="shipped")),
        ),
        (
            _turn("Is there a customer named Zoe Quill?", _wants("find_customer", name="quill"), says="no|not"),
            _turn("And Jan Novak? Where does he live?", _wants("find_customer", name="novak"), says="Brno"),
            _turn("Write one friendly sentence that I could say to a new customer."),
        ),
    ),
    *_conversations(
        LIGHTS,
        (
            _turn("Which lamps are in the kitchen?", _wants("list_lamps", room="kitchen"), says="sink"),
            _turn("Switch the sink lamp on.", _wants("switch_lamp", lamp="sink", on=True)),
            _turn("Now switch it off again.", _wants("switch_lamp", lamp="sink", on=False)),
        ),
        (
            _turn("How warm is it in the office?", _wants("get_temperature", room="office"), says="17"),
            _turn("Set the heating there to 20 degrees.", _wants("set_heating", room="office", degrees=20)),
            _turn("Thanks, that is all."),
        ),
        (
            _turn("What is a good temperature for sleeping, in general?"),
            _turn("How warm is it in the bedroom now?", _wants("get_temperature", room="bedroom"), says="21"),
            _turn("Set the bedroom to 18.", _wants("set_heating", room="bedroom", degrees=18)),
        ),
    ),
    *_conversations(
        TICKETS,
        (
            _turn("Is there a ticket about the printer?", _wants("search_tickets", query="printer"), says="412"),
            _turn("Read it and tell me what E7 means.", _wants("get_ticket", number=412), says="paper|tray"),
            _turn("Close the ticket.", _wants("close_ticket", number=412)),
        ),
        (
            _turn("Which tickets are about the VPN?", _wants("search_tickets", query="vpn"), says="388"),
            _turn("Who is working on 388?", _wants("get_ticket", number=388), says="Rita"),
            _turn("Add the comment: Any news? to 388.", _wants("add_comment", number=388, text="any news")),
        ),
        (
            _turn("Close ticket 412.", _wants("close_ticket", number=412)),
            _turn("Are there tickets about the coffee machine?", _wants("search_tickets", query="coffee"), says="no|not"),
            _turn("What does the abbreviation VPN stand for?", says="virtual"),
        ),
    ),
    *_conversations(
        RECIPES,
        (
            _turn("What do I need for pancakes?", _wants("find_recipe", dish="pancake"), says="egg"),
            _turn("Put eggs on the shopping list.", _wants("add_to_shopping_list", item="egg")),
            _turn("Set a timer for 4 minutes.", _wants("set_timer", minutes=4)),
        ),
        (
            _turn("What is on my shopping list?", _wants("show_shopping_list"), says="butter"),
            _turn("Add milk and cheese to it.", *(_wants("add_to_shopping_list", item=item) for item in ("milk", "cheese"))),
            _turn("Thank you!"),
        ),
        (
            _turn("How long does the tomato soup take?", _wants("find_recipe", dish="soup"), says="25"),
            _turn("Start a timer for that time.", _wants("set_timer", minutes=25)),
            _turn("Name a drink that goes well with it."),
        ),
    ),
    *_conversations(
        BOOKS,
        (
            _turn("Is the book Dune available?", _wants("find_book", title="dune"), says="no|not"),
            _turn("Then reserve it for me.", _wants("reserve_book", book_id="B-9")),
            _turn("Who wrote it?", says="Herbert"),
        ),
        (
            _turn("Please renew my loan of the book B-5.", _wants("renew_loan", book_id="B-5"), says="not|n't|reserved|could"),
            _turn("When is the library open on Saturday?", _wants("opening_hours", day="saturday"), says="14|2"),
            _turn("Thanks, see you then."),
        ),
        (
            _turn("Do you have Emma?", _wants("find_book", title="emma"), says="yes|available|B-31"),
            _turn("Reserve it.", _wants("reserve_book", book_id="B-31")),
            _turn("Which place in the queue did I get?", says="2|second"),
        ),
    ),
    *_conversations(
        NOTEBOOK,
        (
            _turn("What does my note Garden say?", _wants("read_note", title="garden"), says="roses|Friday"),
            _turn(
                "Create a note named Party with the text: Buy balloons.",
                _wants("create_note", title="party", text="balloons"),
            ),
            _turn("And delete the note Old plans.", _wants("delete_note", title="old plans")),
        ),
        (
            _turn("Read the note Taxes.", _wants("read_note", title="tax"), says="no|not"),
            _turn("Then create it, with the text: Ask Olga.", _wants("create_note", title="tax", text="olga")),
            _turn("What did you do just now?", says="note|creat"),
        ),
        (
            _turn("Hello! What can you do for me?"),
            _turn("Make a note Ideas: paint the door green.", _wants("create_note", title="ideas", text="door")),
            _turn("Which colour goes well with green?"),
        ),
    ),
)

# ---- only for the table ----------------------------------------------------------------------------------------------

BANK = World(
    "bank",
    "final",
    (
        make_tool("get_balance", "Get the balance of an account.", account=("string", "The name of the account.")),
        make_tool(
            "transfer",
            "Transfer money to a person.",
            recipient=("string", "Who gets it."),
            amount=("number", "The amount in euros."),
        ),
        make_tool("list_payments", "List the latest payments of an account.", account=("string", "The name of the account.")),
        make_tool("block_card", "Block a card.", card=("string", "The last four digits of the card.")),
    ),
    frozenset({"transfer", "block_card"}),
    {
        "get_balance": {"savings": '{"balance": 4210.5}', "": '{"balance": 318.2}'},
        "transfer": {"": '{"status": "done", "reference": "T-551"}'},
        "list_payments": {"": "Bakery 6.40; Rent 700; Train 29"},
        "block_card": {"": "blocked"},
    },
)
FLIGHTS = World(
    "flights",
    "final",
    (
        make_tool("search_flights", "Search flights.", origin=("string", "From."), destination=("string", "To.")),
        make_tool(
            "book_flight", "Book a flight.", flight=("string", "The number of the flight."), name=("string", "Who flies.")
        ),
        make_tool("flight_status", "Get the status of a flight.", flight=("string", "The number of the flight.")),
        make_tool("cancel_booking", "Cancel a booking.", booking=("string", "The number of the booking.")),
    ),
    frozenset({"book_flight", "cancel_booking"}),
    {
        "search_flights": {"porto": '[{"flight": "PX12", "time": "09:40"}, {"flight": "PX18", "time": "17:05"}]', "": "[]"},
        "book_flight": {"": '{"booking": "K4821", "status": "confirmed"}'},
        "flight_status": {"zz9": "unknown flight", "": "delayed by 35 minutes"},
        "cancel_booking": {"": "cancelled"},
    },
)
PLANTS = World(
    "plants",
    "final",
    (
        make_tool("plant_info", "Get what is known of a plant.", plant=("string", "The plant.")),
        make_tool("water_plant", "Water a plant.", plant=("string", "The plant."), litres=("number", "How many litres.")),
        make_tool("soil_moisture", "Measure how moist the soil of a plant is.", plant=("string", "The plant.")),
        make_tool("add_reminder", "Add a reminder.", text=("string", "What to do."), day=("string", "The day of the week.")),
    ),
    frozenset({"water_plant", "add_reminder"}),
    {
        "plant_info": {"basil": "Basil likes sun. Water it every day.", "": "Cactus. Water it once a month."},
        "water_plant": {"": "watered"},
        "soil_moisture": {"fern": "12 percent", "": "60 percent"},
        "add_reminder": {"": "reminder saved"},
    },
)
STAFF = World(
    "staff",
    "final",
    (
        make_tool("find_employee", "Find an employee.", name=("string", "The name.")),
        make_tool("request_leave", "Request days off.", employee_id=("string", "The id."), days=("integer", "How many days.")),
        make_tool("leave_left", "Get how many days off somebody has left.", employee_id=("string", "The id.")),
        make_tool("send_email", "Send an email.", to=("string", "The address."), text=("string", "The text.")),
    ),
    frozenset({"request_leave", "send_email"}),
    {
        "find_employee": {
            "okafor": '{"employee_id": "E-61", "email": "okafor@example.com", "team": "Sales"}',
            "berg": '{"employee_id": "E-15", "email": "berg@example.com", "team": "Design"}',
            "": '{"employees": []}',
        },
        "request_leave": {"": '{"request": "R-8", "status": "waiting for approval"}'},
        "leave_left": {"e-61": "14 days", "": "3 days"},
        "send_email": {"": "sent"},
    },
)
MUSIC = World(
    "music",
    "final",
    (
        make_tool("search_songs", "Search songs.", query=("string", "Words to search for.")),
        make_tool("play_song", "Play a song.", song_id=("string", "The id of the song.")),
        make_tool(
            "add_to_playlist", "Put a song on a playlist.", song_id=("string", "The id."), playlist=("string", "The list.")
        ),
        make_tool("set_volume", "Set the volume.", percent=("integer", "From 0 to 100.")),
    ),
    frozenset({"play_song", "add_to_playlist", "set_volume"}),
    {
        "search_songs": {
            "river": '[{"song_id": "S-3", "title": "River of Light", "artist": "The Lanterns"}]',
            "error": '[{"song_id": "S-8", "title": "Fatal Error", "artist": "Null"}]',
            "": "[]",
        },
        "play_song": {"": "playing"},
        "add_to_playlist": {"": "added"},
        "set_volume": {"": "ok"},
    },
)
DEPOT = World(
    "depot",
    "final",
    (
        make_tool("stock_level", "Get how many of an article are in stock.", article=("string", "The article.")),
        make_tool(
            "reorder", "Order more of an article.", article=("string", "The article."), quantity=("integer", "How many.")
        ),
        make_tool("track_parcel", "Find out where a parcel is.", parcel=("string", "The number of the parcel.")),
        make_tool("print_label", "Print a label.", address=("string", "The address.")),
    ),
    frozenset({"reorder", "print_label"}),
    {
        "stock_level": {"screw": "40", "bolt": "0", "": "310"},
        "reorder": {"": '{"order": "N-204", "arrives": "Thursday"}'},
        "track_parcel": {"p-9": "in Lyon, arrives tomorrow", "": "no such parcel"},
        "print_label": {"": "printed"},
    },
)

FINAL = (
    *_conversations(
        BANK,
        (
            _turn("How much money is in my savings account?", _wants("get_balance", account="savings"), says="4210|4,210"),
            _turn("Transfer 50 euros to Paula.", _wants("transfer", recipient="paula", amount=50)),
            _turn("What is the reference of that transfer?", says="T-551"),
        ),
        (
            _turn("I have lost my card 7731. Block it.", _wants("block_card", card="7731")),
            _turn(
                "Which payments were made from my checking account?", _wants("list_payments", account="checking"), says="Rent"
            ),
            _turn("How much was the train?", says="29"),
        ),
        (
            _turn("What is the difference between a debit card and a credit card?"),
            _turn("Send 12.5 euros to Emil.", _wants("transfer", recipient="emil", amount=12.5)),
            _turn("And 20 euros to Nina.", _wants("transfer", recipient="nina", amount=20)),
        ),
    ),
    *_conversations(
        FLIGHTS,
        (
            _turn(
                "Which flights go from Berlin to Porto?",
                _wants("search_flights", origin="berlin", destination="porto"),
                says="PX12",
            ),
            _turn("Book the first one for Carla Dietz.", _wants("book_flight", flight="PX12", name="carla")),
            _turn("Which booking number did I get?", says="K4821"),
        ),
        (
            _turn("Is flight PX18 on time?", _wants("flight_status", flight="PX18"), says="delay|35"),
            _turn("What about flight ZZ9?", _wants("flight_status", flight="ZZ9"), says="unknown|not|no "),
            _turn("Cancel my booking K4821.", _wants("cancel_booking", booking="K4821")),
        ),
        (
            _turn("Are there flights from Oslo to Nome?", _wants("search_flights", destination="nome"), says="no|not"),
            _turn("In which country is Oslo?", says="Norway"),
            _turn("Book PX18 for Henri Roy.", _wants("book_flight", flight="PX18", name="henri")),
        ),
    ),
    *_conversations(
        PLANTS,
        (
            _turn("How moist is the soil of the fern?", _wants("soil_moisture", plant="fern"), says="12"),
            _turn("Water it with 2 litres.", _wants("water_plant", plant="fern", litres=2)),
            _turn("Thank you, well done."),
        ),
        (
            _turn("How often does basil need water?", _wants("plant_info", plant="basil"), says="day"),
            _turn("Remind me on Monday to buy basil.", _wants("add_reminder", text="basil", day="monday")),
            _turn("Give the basil half a litre of water.", _wants("water_plant", plant="basil", litres=0.5)),
        ),
        (
            _turn("Why do leaves turn yellow?"),
            _turn("Tell me about the cactus.", _wants("plant_info", plant="cactus"), says="month"),
            _turn("Remind me on Friday to water the cactus.", _wants("add_reminder", text="cactus", day="friday")),
        ),
    ),
    *_conversations(
        STAFF,
        (
            _turn("Which team is Ada Okafor in?", _wants("find_employee", name="okafor"), says="Sales"),
            _turn("How many days off does she have left?", _wants("leave_left", employee_id="E-61"), says="14"),
            _turn("Request 3 days off for her.", _wants("request_leave", employee_id="E-61", days=3)),
        ),
        (
            _turn("What is the email address of Lena Berg?", _wants("find_employee", name="berg"), says="berg@example.com"),
            _turn("Write her: The meeting is at noon.", _wants("send_email", to="berg@example.com", text="noon")),
            _turn("Is there an employee named Igor Vance?", _wants("find_employee", name="vance"), says="no|not"),
        ),
        (
            _turn("Request 2 days off for E-15.", _wants("request_leave", employee_id="E-15", days=2)),
            _turn("Is it approved already?", says="wait|not|approv"),
            _turn("Write a polite sentence that asks for a day off."),
        ),
    ),
    *_conversations(
        MUSIC,
        (
            _turn("Find the song River of Light.", _wants("search_songs", query="river"), says="Lanterns|S-3"),
            _turn("Play it.", _wants("play_song", song_id="S-3")),
            _turn("A bit louder: 70 percent.", _wants("set_volume", percent=70)),
        ),
        (
            _turn("Who sings Fatal Error?", _wants("search_songs", query="fatal error"), says="Null"),
            _turn("Put it on the playlist Work.", _wants("add_to_playlist", song_id="S-8", playlist="work")),
            _turn("Thanks!"),
        ),
        (
            _turn("Set the volume to 25.", _wants("set_volume", percent=25)),
            _turn("Do you have a song about whales?", _wants("search_songs", query="whale"), says="no|not"),
            _turn("How many strings does a violin have?", says="four|4"),
        ),
    ),
    *_conversations(
        DEPOT,
        (
            _turn("How many screws do we have?", _wants("stock_level", article="screw"), says="40"),
            _turn("Order 500 more.", _wants("reorder", article="screw", quantity=500)),
            _turn("When do they arrive?", says="Thursday"),
        ),
        (
            _turn("Where is the parcel P-9?", _wants("track_parcel", parcel="P-9"), says="Lyon"),
            _turn("And P-77?", _wants("track_parcel", parcel="P-77"), says="no|not"),
            _turn("Print a label for 4 Mill Lane, York.", _wants("print_label", address="mill lane")),
        ),
        (
            _turn("Do we have any bolts?", _wants("stock_level", article="bolt"), says="no|not|0|out"),
            _turn("Then order 100 bolts.", _wants("reorder", article="bolt", quantity=100)),
            _turn("What is the difference between a bolt and a screw?"),
        ),
    ),
)

CONVERSATIONS = (*TUNING, *FINAL)
