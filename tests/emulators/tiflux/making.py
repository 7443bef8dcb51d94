"""How things look when they are new, for the seeds and for the endpoints alike."""

from typing import Any

from .clock import NOW, day
from .shelves import Json
from .tenant import Tenant


def person(tenant: Tenant, name: str, email: str, kind: str) -> Json:
    group = tenant.technical_groups.first()["id"] if kind != "client" else None
    return {
        "name": tenant.text(name), "email": email, "_type": kind, "active": True, "telephone": "4733330000",
        "extension": "12", "technical_group_id": group, "client_ids": [], "last_login_at": day(1),
        "gauth_enabled": False,
    }  # fmt: skip


def new_client(tenant: Tenant, name: str, social: str, **more: Any) -> Json:
    fields = {
        "name": tenant.text(name), "social": social, "status": True, "social_revenue": "12345678000190",
        "max_agents": 5, "anotations": tenant.text("Cliente antigo"), "desk_ids": [],
        "technical_group_ids": [],
    }  # fmt: skip
    return fields | more


def stored(tenant: Tenant, name: str, kind: str, size: int) -> Json:
    return {
        "name": name, "file_name": name, "content_type": kind, "size": size, "created_at": NOW,
        "url": f"https://files.example/{tenant.mark}/{size}", "created_by": {"name": tenant.me["name"]},
    }  # fmt: skip
