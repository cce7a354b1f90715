"""Containers and their files, as the API has them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

MemoryLimit = Literal["1g", "4g", "16g", "64g"]


class ExpiresAfter(Struct, frozen=True):
    anchor: Literal["last_active_at"]
    minutes: Annotated[int, Meta(ge=1, le=20)]


class NetworkPolicy(Struct, frozen=True):
    type: Literal["disabled", "allowlist"]


class CreateContainer(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    file_ids: Annotated[list[str], Meta(max_length=50)] | None = None
    expires_after: ExpiresAfter | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None
    skills: list[Any] | None = None


class AddFile(Struct, frozen=True):
    file_id: str | None = None


class ContainerObject(Struct, kw_only=True):
    id: str
    object: str = "container"
    name: str
    created_at: int
    status: Literal["running", "expired"]
    expires_after: ExpiresAfter
    last_active_at: int
    memory_limit: str
    network_policy: NetworkPolicy = NetworkPolicy("disabled")


class ContainerFileObject(Struct, kw_only=True):
    id: str
    object: str = "container.file"
    container_id: str
    created_at: int
    bytes: int
    path: str
    source: Literal["user", "assistant"]


class Deleted(Struct, kw_only=True):
    id: str
    object: str
    deleted: bool = True
