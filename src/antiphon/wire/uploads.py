"""Uploads in parts, as the API has them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.wire.batches import OutputExpiry


class CreateUpload(Struct):
    bytes: Annotated[int, Meta(ge=1)]
    filename: Annotated[str, Meta(min_length=1, max_length=255)]
    mime_type: str
    purpose: str
    expires_after: OutputExpiry | None = None


class CompleteUpload(Struct):
    part_ids: Annotated[list[str], Meta(min_length=1, max_length=10_000)]
    md5: str | None = None


class Upload(Struct, kw_only=True):
    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str
    expires_at: int
    # The file object.
    file: dict[str, Any] | None = None


class UploadPart(Struct):
    id: str
    created_at: int
    upload_id: str
    object: Literal["upload.part"] = "upload.part"
