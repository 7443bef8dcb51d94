"""The pages that a person sees while connecting a server, in English and Portuguese.

They show names from our own configuration and nothing that a request brought along, load nothing, run
nothing, and cannot be put into a frame.
"""

import base64
import hashlib
from html import escape
from typing import Literal

Language = Literal["en", "pt"]
PageKind = Literal["connected", "returned", "denied", "expired", "failed", "confirm", "elsewhere"]

_STYLE = """
:root{color-scheme:light dark;--paper:#f6f5f1;--card:#fff;--ink:#1d2430;--soft:#5b6472;--line:#e2e0d8;
--good:#1f7a4d;--bad:#b3402f;--accent:#0f766e}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--card:#1c2129;--ink:#e8eaee;--soft:#9aa4b2;
--line:#2c333e;--good:#5cc493;--bad:#ec8b7a;--accent:#5cc4b8}}
*{box-sizing:border-box}body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;
justify-content:center;background:var(--paper);color:var(--ink);padding:24px;
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:460px;background:var(--card);border:1px solid var(--line);border-radius:14px;
padding:36px 32px;box-shadow:0 1px 2px rgba(0,0,0,.05)}
.mark{display:block;width:44px;height:44px;margin:0 0 20px}.good{color:var(--good)}.bad{color:var(--bad)}
.ask{color:var(--accent)}h1{font-size:1.35rem;line-height:1.3;margin:0 0 10px;overflow-wrap:anywhere}
p{margin:0 0 12px;color:var(--soft);overflow-wrap:anywhere}p strong{color:var(--ink);font-weight:600}
dl{margin:18px 0;border-top:1px solid var(--line)}dl div{display:flex;gap:16px;padding:10px 0;
border-bottom:1px solid var(--line)}dt{flex:0 0 34%;color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
button{font:inherit;font-weight:600;width:100%;margin-top:8px;padding:12px 18px;border:0;border-radius:9px;
background:var(--accent);color:var(--card);cursor:pointer}button:focus-visible{outline:3px solid var(--ink);
outline-offset:2px}header{display:flex;align-items:center;gap:10px;margin:0 0 18px;font-weight:650;
letter-spacing:.01em}header svg{width:30px;height:30px}
@media(max-width:480px){main{padding:28px 22px}dl div{display:block}}
""".strip()
_LOGO = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#0f766e"/>'
    '<g fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round">'
    '<path d="M5.5 16h7M19.5 13.4 26 8M19.5 18.6 26 24M20 16h6.5"/>'
    '<rect x="12.2" y="12.2" width="7.6" height="7.6" rx="2" fill="#fff"/></g></svg>'
)
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CHECK = '<path d="M13 23l7 7 13-15"/>'
_CROSS = '<path d="M15 15l16 16M31 15L15 31"/>'
_ASK = '<path d="M23 13v13M23 31v1"/>'
_LOOKS: dict[str, tuple[str, str]] = {
    "connected": ("good", _CHECK),
    "returned": ("good", _CHECK),
    "denied": ("bad", _CROSS),
    "expired": ("bad", _CROSS),
    "failed": ("bad", _CROSS),
    "elsewhere": ("bad", _CROSS),
    "confirm": ("ask", _ASK),
}
_TEXTS: dict[Language, dict[str, tuple[str, str]]] = {
    "en": {
        "connected": (
            "{server} is connected",
            "You can close this window and go back to where you came from. Your tools are ready.",
        ),
        "returned": (
            "You have logged in to {server}",
            "You can close this window. The program that asked for it says whether the connection works.",
        ),
        "denied": (
            "{server} was not connected",
            "Access was not granted. If that was not your intention, begin again from where you came from.",
        ),
        "expired": (
            "This link is not valid any more",
            "It was used already, or is too old. Begin again from where you came from; you get a new one.",
        ),
        "failed": (
            "{server} could not be connected",
            "Its login did not answer as it should, and nothing was saved. Try again; "
            "if it happens again, whoever runs this gateway finds the reason in its log.",
        ),
        "elsewhere": (
            "This login was begun in another browser",
            "For your safety a connection has to be finished where it was begun. Nothing was saved.",
        ),
        "confirm": (
            "Connect {server}?",
            "You will be sent to the login of this server. Continue only if <strong>you yourself</strong> "
            "asked for this: whoever is named here can then use your account there.",
        ),
    },
    "pt": {
        "connected": (
            "{server} está conectado",
            "Você pode fechar esta janela e voltar para onde estava. Suas ferramentas estão prontas.",
        ),
        "returned": (
            "Você entrou em {server}",
            "Você pode fechar esta janela. O programa que pediu o login informa se a conexão funciona.",
        ),
        "denied": (
            "{server} não foi conectado",
            "O acesso não foi concedido. Se não era essa a intenção, comece de novo de onde você veio.",
        ),
        "expired": (
            "Este link não é mais válido",
            "Ele já foi usado ou é antigo. Comece de novo de onde você veio; você receberá outro link.",
        ),
        "failed": (
            "Não foi possível conectar {server}",
            "O login não respondeu como deveria, e nada foi salvo. Tente de novo; se acontecer outra vez, "
            "quem opera este gateway encontra o motivo no log.",
        ),
        "elsewhere": (
            "Este login foi iniciado em outro navegador",
            "Por segurança, uma conexão precisa terminar onde começou. Nada foi salvo.",
        ),
        "confirm": (
            "Conectar {server}?",
            "Você será levado ao login deste servidor. Continue apenas se <strong>você mesmo</strong> "
            "pediu isto: quem está indicado aqui poderá usar a sua conta lá.",
        ),
    },
}
_LABELS: dict[Language, dict[str, str]] = {
    "en": {
        "user": "For",
        "host": "Login at",
        "scopes": "Asks for",
        "go": "Continue to the login",
        "a server": "The server",
    },
    "pt": {
        "user": "Para",
        "host": "Login em",
        "scopes": "Solicita",
        "go": "Continuar para o login",
        "a server": "O servidor",
    },
}


def policy(form_targets: str = "'none'") -> str:
    """The Content-Security-Policy of a page; a form may lead to these places only."""
    return (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action {form_targets}"
    )


def language_of(header: str) -> Language:
    """The first language in `Accept-Language` that there are pages in."""
    for part in header.lower().split(",")[:20]:
        tag = part.partition(";")[0].strip().partition("-")[0]
        if tag in ("en", "pt"):
            return "pt" if tag == "pt" else "en"
    return "en"


def page(
    kind: PageKind, language: Language, server: str = "", details: dict[str, str] | None = None
) -> bytes:
    """`details` are the rows of a page that asks: `user`, `host`, `scopes`."""
    labels = _LABELS[language]
    title, text = _TEXTS[language][kind]
    heading = title.replace("{server}", server or labels["a server"])
    colour, path = _LOOKS[kind]
    mark = (
        f'<svg class="mark {colour}" viewBox="0 0 46 46" fill="none" stroke="currentColor" stroke-width="3" '
        f'stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="23" cy="23" r="21"/>'
        f"{path}</svg>"
    )
    rows = "".join(
        f"<div><dt>{labels[name]}</dt><dd>{escape(value)}</dd></div>"
        for name, value in (details or {}).items()
    )
    form = f'<form method="post"><button>{labels["go"]}</button></form>' if kind == "confirm" else ""
    listed = f"<dl>{rows}</dl>" if rows else ""
    tag = "pt-BR" if language == "pt" else "en"
    return (
        f'<!doctype html><html lang="{tag}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(heading)}</title>'
        f"<style>{_STYLE}</style></head><body><header>{_LOGO}Toolyard</header><main>{mark}<h1>{escape(heading)}</h1><p>{text}</p>"
        f"{listed}{form}</main></body></html>"
    ).encode()
