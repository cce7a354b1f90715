"""Which addresses tools of the gateway may connect to, and connections that go nowhere else.

A name is resolved once, and the address that was checked is the one that is connected to: a name that changes its address in
between gains nothing.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

IpAddress = IPv4Address | IPv6Address
Allowed = Literal["off", "listed", "public", "any"]


class AddressRefused(Exception):
    """The policy does not allow this connection. The message says why, and is fit for a client."""


class AddressPolicy(Struct, frozen=True):
    # "off": nothing; "listed": the hosts of `listed`; "public": these, and addresses of the public internet; "any": these, and
    # private networks.
    allow: Allowed
    # Hosts, as "example.com", "example.com:8080", "*.example.com", or networks, as "10.1.0.0/16".
    listed: Sequence[str] = ()
    # This machine may be connected to as well.
    loopback: bool = False
    # Where the gateway itself listens. It is never connected to.
    own: Collection[tuple[str, int]] = ()
    # Only https, except to this machine and to hosts of `listed`.
    https: bool = False


# ---- kinds of addresses ----------------------------------------------------------------------------------------------

# Where clouds give a machine its own secrets. Others are link-local.
METADATA = frozenset(
    map(
        ipaddress.ip_address,
        # Alibaba; Oracle; Azure; AWS, Google and Scaleway over IPv6.
        ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42"),
    )
)
# IPv4 mapped, translated, compatible; NAT64: the last 32 bits are an IPv4 address.
CARRIES_IPV4 = tuple(IPv6Network(each) for each in ("::ffff:0:0/96", "::ffff:0:0:0/96", "::/96", "64:ff9b::/96"))
# NAT64 of a network: which of the bits are the IPv4 address is known only there. Most often they are the last 32.
LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
# What Python counts as public and is not: protocol assignments, the old relays, documentation.
NOT_PUBLIC = tuple(ipaddress.ip_network(each) for each in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))
PUBLIC_IPV6 = IPv6Network("2000::/3")
THIS_NETWORK = IPv4Network("0.0.0.0/8")
BROADCAST = IPv4Address("255.255.255.255")


def _carried(address: IpAddress) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to."""
    if isinstance(address, IPv4Address) or address.is_loopback or address.is_unspecified:
        return None
    if any(address in network for network in CARRIES_IPV4):
        return _last_bits(address)
    return address.sixtofour or (address.teredo[1] if address.teredo is not None else None)


def _candidates(address: IpAddress) -> Iterator[IpAddress]:
    """What a connection to it may reach."""
    yield address
    if (carried := _carried(address)) is not None:
        yield carried
    if address in LOCAL_NAT64:
        yield _last_bits(address)


def _last_bits(address: IpAddress) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)


def _never(address: IpAddress) -> str | None:
    """What it is, if no setting allows it."""
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast or address == BROADCAST:
        return "an address of many machines"
    if address.is_unspecified or address in THIS_NETWORK:
        return "an address of no machine"
    return "an address of a cloud's metadata" if address in METADATA else None


def _is_public(address: IpAddress) -> bool:
    if not address.is_global or any(address in network for network in NOT_PUBLIC):
        return False
    return isinstance(address, IPv4Address) or address in PUBLIC_IPV6


def _is_of_this_machine(address: IpAddress) -> bool:
    if address.is_loopback:
        return True
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Only an address of this machine can be bound. Nothing is sent.
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


# ---- what a policy says ----------------------------------------------------------------------------------------------


def address_complaint(policy: AddressPolicy, host: str, address: str, port: int) -> str | None:
    """Why `host`, which has this address, may not be connected to. None: it may."""
    ip = ipaddress.ip_address(_without_scope(address))
    if (kind := next(filter(None, map(_never, _candidates(ip))), None)) is not None:
        return f"{_subject(host)} {kind}, to which no connection is made"
    reached = _carried(ip) or ip
    if any(port == own for _, own in policy.own) and _is_of_this_machine(reached):
        return f"{host}:{port} is this gateway itself"
    if policy.allow == "off":
        return f"{host} may not be connected to: no address may"
    if policy.allow == "any" or (policy.loopback and reached.is_loopback) or _is_listed(policy, host, port, reached):
        return None
    if policy.allow == "listed":
        return f"{host} is not one of the hosts that may be connected to"
    return None if _is_public(reached) else f"{host} is not on the public internet, and may not be connected to"


def _subject(host: str) -> str:
    """A name's address is not shown: it may be a secret of the network that the gateway is in."""
    return f"{host} is" if literal_address(host) is not None else f"{host} has"


def url_complaint(policy: AddressPolicy, url: str) -> str | None:
    """Why this URL may not be used, as far as that can be said before its host is resolved. It never repeats credentials."""
    try:
        parts = urlsplit(url)
        port = parts.port
        _encode_host(URL(url))
    except ValueError:
        return "it is not a URL"
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in ("http", "https") or not host:
        return "it must be http://… or https://…"
    if "@" in parts.netloc:
        return "a URL must not have a user name or a password; send them as a header"
    if any(letter.isspace() or not letter.isprintable() for letter in url):
        return "it must not have spaces or control characters"
    if policy.allow == "off":
        return "no address may be connected to"
    port = port or (443 if parts.scheme == "https" else 80)
    if (literal := literal_address(host)) is not None:
        complaint = address_complaint(policy, host, str(literal), port)
    else:
        complaint = _name_complaint(policy, host, port)
    if complaint is None and policy.https and parts.scheme != "https" and not _may_be_plain(policy, host, port, literal):
        return f"only https may be used for {host}"
    return complaint


def _encode_host(url: URL) -> None:
    """As for a connection. Raises UnicodeError: a label is too long or empty, or no punycode."""
    raw, _ = url.raw_host, url.host
    (raw or "").encode("idna")


def _name_complaint(policy: AddressPolicy, host: str, port: int) -> str | None:
    if policy.allow != "listed" or _is_listed(policy, host, port, None) or (policy.loopback and _names_loopback(host)):
        return None
    # Its address may be in a network that is listed.
    return None if _networks(policy) else f"{host} is not one of the hosts that may be connected to"


def _may_be_plain(policy: AddressPolicy, host: str, port: int, literal: IpAddress | None) -> bool:
    loopback = literal.is_loopback if literal is not None else _names_loopback(host)
    return loopback or _is_listed(policy, host, port, literal)


def _names_loopback(host: str) -> bool:
    return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _is_listed(policy: AddressPolicy, host: str, port: int, address: IpAddress | None) -> bool:
    name = host.lower().rstrip(".")
    named = {name, f"{name}:{port}", f"[{name}]:{port}"}
    for each in policy.listed:
        entry = each.lower()
        if entry in named or (entry.startswith("*.") and name.endswith(entry[1:])):
            return True
    return address is not None and any(address in network for network in _networks(policy))


def _networks(policy: AddressPolicy) -> list[IPv4Network | IPv6Network]:
    return [ipaddress.ip_network(each, strict=False) for each in policy.listed if "/" in each]


def literal_address(host: str) -> IpAddress | None:
    """The address that a host is, in any of the ways of writing one: 2130706433, 0x7f.1 and 0177.0.0.1 are 127.0.0.1."""
    host = _without_scope(host.strip("[]")).rstrip(".")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    if not re.fullmatch(r"[0-9][0-9a-fA-FxX.]*", host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _without_scope(address: str) -> str:
    """Without the interface that it is to be reached by, as in fe80::1%eth0. With one it is equal to no other address."""
    return address.partition("%")[0] if ":" in address else address


# ---- connections -----------------------------------------------------------------------------------------------------


async def resolve(
    policy: AddressPolicy, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
) -> list[ResolveResult]:
    """The addresses of a host that may be connected to. Raises AddressRefused if it has none; OSError if it has no address."""
    allowed: list[ResolveResult] = []
    complaints: list[str] = []
    for address in await _addresses_of(host, port, family):
        complaint = address_complaint(policy, host, address, port)
        if complaint is None:
            allowed.append(_resolved(host, address, port))
        else:
            complaints.append(complaint)
    if not allowed:
        raise AddressRefused(complaints[0] if complaints else f"{host} has no address")
    return allowed


async def _addresses_of(host: str, port: int, family: socket.AddressFamily) -> list[str]:
    if (literal := literal_address(host)) is not None:
        return [str(literal)]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
    return [_without_scope(str(where[0])) for *_, where in found]


def _resolved(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=socket.IPPROTO_TCP, flags=flags)


class _Resolver(AbstractResolver):
    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        return await resolve(self._policy, host, port, family)

    async def close(self) -> None: ...


class _Connector(aiohttp.TCPConnector):
    def __init__(self, policy: AddressPolicy, **options: Any) -> None:
        super().__init__(resolver=_Resolver(policy), use_dns_cache=False, **options)
        self._policy = policy

    async def connect(self, req: Any, *rest: Any, **named: Any) -> Any:
        # Of a host that is an address, the resolver is not asked.
        if (literal := literal_address(req.url.host or "")) is not None:
            complaint = address_complaint(self._policy, str(literal), str(literal), req.url.port or 0)
            if complaint is not None:
                raise AddressRefused(complaint)
        return await super().connect(req, *rest, **named)


def guarded_connector(policy: AddressPolicy, **options: Any) -> aiohttp.TCPConnector:
    """Connects to what the policy allows, also after redirects; anything else raises AddressRefused. It is for a session
    without a proxy, which would connect in its place. `options`: of the connector."""
    return _Connector(policy, **options)
