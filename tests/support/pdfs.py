"""PDF files for the tests, written by hand."""

import base64


def make_pdf(*pages: str) -> bytes:
    """One page for each text, in Latin letters. An empty text is a page without any."""
    first_page = 4
    kids = " ".join(f"{first_page + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        resources = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {resources} /Contents {first_page + 2 * at + 1} 0 R >>")
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    return _with_table(objects)


def make_scan(*images: bytes, filter: str = "/DCTDecode") -> bytes:
    """One page for each image, without any text."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(images)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(images)} >>"]
    for at, image in enumerate(images):
        resources = f"/Resources << /XObject << /Im {4 + 2 * at} 0 R >> >> /MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {resources} >>")
        size = "/Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8"
        members = f"/Type /XObject /Subtype /Image {size} /Filter {filter} /Length {len(image)}"
        objects.append(f"<< {members} >>\nstream\n{image.decode('latin-1')}\nendstream")
    return _with_table(objects)


def _with_table(objects: list[str]) -> bytes:
    """The file, with the table of where each object begins."""
    body, starts = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        starts.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    rows = "".join(f"{start:010} 00000 n \n" for start in starts)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + (table + trailer).encode()


def file_part(document: bytes, *, filename: str = "a.pdf", prefix: str = "data:application/pdf;base64,") -> dict[str, str]:
    return {"type": "input_file", "filename": filename, "file_data": prefix + base64.b64encode(document).decode()}
