"""`antiphon key new --file`: a new key, and the line of the configuration file that lets it in."""

from antiphon.settings.keys import check_name, new_key, to_hashed
from antiphon.settings.settings import Settings

NEW = """The key of {name}, which is shown only now:

{key}

Add this to the configuration file, and send SIGHUP to a gateway that is running:

[keys]
{name} = "{value}"
"""
ANOTHER = """Another key of {name}, which is shown only now:

{key}

Add this to the keys of {name} in the configuration file, and send SIGHUP to a gateway that is running. Remove the old key
when nobody uses it any more:

[keys]
{name} = ["…", "{value}"]
"""


def key_lines(settings: Settings, name: str, *, hashed: bool) -> str:
    """For the configuration file. Raises SettingsError for a name that cannot be one."""
    check_name(name, "key new")
    key = new_key()
    text = ANOTHER if name in settings.keys else NEW
    return text.format(name=name, key=key, value=to_hashed(key) if hashed else key).rstrip("\n")
