"""What came as a file, as the API shows it afterwards."""

from ..asked import Attachment
from ..shelves import Json
from ..tenant import Tenant


def stored(tenant: Tenant, file: Attachment) -> Json:
    return {
        "name": file.filename,
        "file_name": file.filename,
        "content_type": file.content_type,
        "size": len(file.content),
        "url": f"https://files.example/{tenant.mark}/{len(file.content)}",
        "created_at": "2026-09-30T12:00:00Z",
        "created_by": {"name": tenant.me["name"]},
    }
