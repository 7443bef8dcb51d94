"""The pages that a person sees while connecting a server, in English and Portuguese.

They show names from our own configuration and nothing that a request brought along, load nothing, run
nothing, and cannot be put into a frame.
"""

import base64
import hashlib
from html import escape
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

Language = Literal["en", "pt"]
PageKind = Literal["connected", "returned", "denied", "expired", "failed", "confirm", "elsewhere", "key"]
KeyProblem = Literal["empty", "characters", "long", "refused", "unreachable"]
"""Why a key that was entered is not kept."""


class KeyForm(Struct, frozen=True):
    """The form of a page that asks for a key."""

    token: str
    """Comes back with the form, and shows that it is ours."""
    label: str = ""
    help: str = ""
    """Where people get a key."""
    is_shared: bool = False
    problem: KeyProblem | None = None
    left: int = 0
    """How often it may still be tried."""


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
outline-offset:2px}label{display:block;font-weight:600;margin:0 0 6px}
input[type=password]{font:inherit;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
width:100%;padding:11px 12px;border:1px solid var(--soft);border-radius:9px;background:var(--paper);
color:var(--ink)}input[type=password]:focus-visible{outline:3px solid var(--accent);outline-offset:1px;
border-color:var(--accent)}form{margin-top:18px}form button{margin-top:16px}a{color:var(--accent)}
.note{font-size:.9rem;margin:10px 0 0}.wrong{color:var(--bad);border-left:3px solid var(--bad);
padding:2px 0 2px 12px;margin:18px 0 0}header{display:flex;align-items:center;gap:10px;margin:0 0 18px;
font-weight:650;letter-spacing:.01em}header svg{width:30px;height:30px}
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
_KEY = '<circle cx="17" cy="23" r="5"/><path d="M22 23h12M34 23v5M29 23v4"/>'
_LOOKS: dict[str, tuple[str, str]] = {
    "connected": ("good", _CHECK),
    "returned": ("good", _CHECK),
    "denied": ("bad", _CROSS),
    "expired": ("bad", _CROSS),
    "failed": ("bad", _CROSS),
    "elsewhere": ("bad", _CROSS),
    "confirm": ("ask", _ASK),
    "key": ("ask", _KEY),
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
        "key": (
            "Connect {server}",
            "This server wants an API key. Enter one only if <strong>you yourself</strong> asked for this: "
            "whoever is named here can then use your account there.",
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
        "key": (
            "Conectar {server}",
            "Este servidor pede uma chave de API. Informe uma apenas se <strong>você mesmo</strong> "
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
        "you": "you",
        "place": "Sent to",
        "use": "Used by",
        "everybody": "everybody who uses this gateway",
        "one": "only {user}",
        "key": "API key",
        "save": "Save the key",
        "help": "Get a key at",
        "kept": "It is kept encrypted on this gateway, and never shown again.",
        "left": "Attempts left: {left}.",
    },
    "pt": {
        "user": "Para",
        "host": "Login em",
        "scopes": "Solicita",
        "go": "Continuar para o login",
        "a server": "O servidor",
        "you": "você",
        "place": "Enviada a",
        "use": "Usada por",
        "everybody": "todos que usam este gateway",
        "one": "somente {user}",
        "key": "Chave de API",
        "save": "Salvar a chave",
        "help": "Obtenha uma chave em",
        "kept": "Ela fica guardada cifrada neste gateway e nunca mais é exibida.",
        "left": "Tentativas restantes: {left}.",
    },
}
_PROBLEMS: dict[Language, dict[KeyProblem, str]] = {
    "en": {
        "empty": "Enter the key first.",
        "characters": "This cannot be a key: it has blanks, line breaks or letters that no header can carry. "
        "Copy it again, without anything around it.",
        "long": "This is too long for a key. Copy it again, without anything around it.",
        "refused": "The server did not accept this key, and it was not saved. Check that it was copied "
        "completely and is still valid.",
        "unreachable": "The server did not answer, so the key could not be tried and was not saved. "
        "Try again in a moment.",
    },
    "pt": {
        "empty": "Informe a chave primeiro.",
        "characters": "Isto não pode ser uma chave: há espaços, quebras de linha ou letras que um cabeçalho "
        "não transporta. Copie de novo, sem nada em volta.",
        "long": "Isto é longo demais para uma chave. Copie de novo, sem nada em volta.",
        "refused": "O servidor não aceitou esta chave, e ela não foi salva. Verifique se foi copiada por "
        "inteiro e se ainda é válida.",
        "unreachable": "O servidor não respondeu; a chave não pôde ser testada e não foi salva. "
        "Tente de novo em instantes.",
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
    kind: PageKind,
    language: Language,
    server: str = "",
    details: dict[str, str] | None = None,
    form: KeyForm | None = None,
) -> bytes:
    """`details` are the rows of a page that asks: `user` (empty: whoever reads it), `host` and so on."""
    labels = _LABELS[language]
    title, text = _TEXTS[language][kind]
    heading = title.replace("{server}", server or labels["a server"])
    colour, path = _LOOKS[kind]
    mark = (
        f'<svg class="mark {colour}" viewBox="0 0 46 46" fill="none" stroke="currentColor" stroke-width="3" '
        f'stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="23" cy="23" r="21"/>'
        f"{path}</svg>"
    )
    rows = {labels[name]: value or labels["you"] for name, value in (details or {}).items()}
    if form is not None:
        user = rows.get(labels["user"], labels["you"])
        rows[labels["use"]] = labels["everybody"] if form.is_shared else labels["one"].replace("{user}", user)
    listed = "".join(f"<div><dt>{label}</dt><dd>{escape(value)}</dd></div>" for label, value in rows.items())
    tag = "pt-BR" if language == "pt" else "en"
    return (
        f'<!doctype html><html lang="{tag}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(heading)}</title>'
        f"<style>{_STYLE}</style></head><body><header>{_LOGO}Toolyard</header>"
        f"<main>{mark}<h1>{escape(heading)}</h1><p>{text}</p>"
        f"{f'<dl>{listed}</dl>' if listed else ''}{_form(kind, language, form)}"
        f"</main></body></html>"
    ).encode()


def _form(kind: PageKind, language: Language, form: KeyForm | None) -> str:
    labels = _LABELS[language]
    if kind == "confirm":
        return f'<form method="post"><button>{labels["go"]}</button></form>'
    if form is None:
        return ""
    problem = ""
    if form.problem is not None:
        left = labels["left"].replace("{left}", str(form.left))
        problem = f'<p class="wrong" role="alert">{_PROBLEMS[language][form.problem]} {left}</p>'
    help = ""
    if form.help:
        host = escape(urlsplit(form.help).netloc)
        link = f'<a href="{escape(form.help)}" target="_blank" rel="noopener noreferrer">{host}</a>'
        help = f'<p class="note">{labels["help"]} {link}</p>'
    return (
        f'{problem}<form method="post" autocomplete="off"><input type="hidden" name="form" '
        f'value="{escape(form.token)}"><label for="key">{escape(form.label or labels["key"])}</label>'
        f'<input type="password" id="key" name="key" required autofocus autocomplete="off" '
        f'spellcheck="false" autocapitalize="off" data-1p-ignore data-lpignore="true">{help}'
        f'<p class="note">{labels["kept"]}</p><button>{labels["save"]}</button></form>'
    )
