"""The pages that a person sees: signing in, making a passkey, consent, and what went wrong.

In English and Portuguese. Whatever comes from outside is escaped here and nowhere else. No page loads
anything or fits into a frame, and none runs anything but the one script that asks a browser for a passkey.
Owns the words and the looks; what is decided is in `server`.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal

import msgspec

from ..edge.request import NO_SNIFF, NO_STORE, Headers
from .clients import MAX_NAME, OAuthClient, redirect_target

Language = Literal["en", "pt"]

_TEXTS: dict[str, dict[Language, str]] = {
    "sign_in": {"en": "Sign in", "pt": "Entrar"},
    "sign_in_lead": {
        "en": "{client} wants to use the tools of this gateway. Sign in to decide.",
        "pt": "{client} quer usar as ferramentas deste gateway. Entre para decidir.",
    },
    "user": {"en": "User name", "pt": "Usuário"},
    "password": {"en": "Password", "pt": "Senha"},
    "wrong": {
        "en": "That user name and password do not match.",
        "pt": "Usuário e senha não conferem.",
    },
    "wait": {
        "en": "Too many tries. Wait {minutes} min and try again.",
        "pt": "Tentativas demais. Aguarde {minutes} min e tente de novo.",
    },
    "or": {"en": "or", "pt": "ou"},
    "use_passkey": {"en": "Use a passkey", "pt": "Usar uma chave de acesso"},
    "passkey_wrong": {
        "en": "That passkey was not accepted. It may have been removed.",
        "pt": "Essa chave de acesso não foi aceita. Ela pode ter sido removida.",
    },
    "passkey_cancelled": {
        "en": "No passkey was used. Try again, or sign in another way.",
        "pt": "Nenhuma chave de acesso foi usada. Tente de novo ou entre de outra forma.",
    },
    "passkey_elsewhere": {
        "en": "This browser allows no passkeys at this address.",
        "pt": "Este navegador não permite chaves de acesso neste endereço.",
    },
    "passkey_localhost": {
        "en": "Passkeys work only if the application reaches this gateway as {address}.",
        "pt": "Chaves de acesso só funcionam se o aplicativo acessa este gateway como {address}.",
    },
    "enrol": {"en": "Create a passkey", "pt": "Criar uma chave de acesso"},
    "enrol_lead": {
        "en": "With it {user} signs in at {host} by fingerprint, face, PIN or security key, without a"
        " password.",
        "pt": "Com ela {user} entra em {host} por impressão digital, rosto, PIN ou chave de segurança, sem"
        " senha.",
    },
    "passkey_name": {"en": "Name of this passkey (optional)", "pt": "Nome desta chave (opcional)"},
    "passkey_example": {"en": "my laptop", "pt": "meu notebook"},
    "enrol_once": {
        "en": "The link that led here counts once. Only go on if you asked for it.",
        "pt": "O link que trouxe você aqui vale uma vez só. Continue só se você o pediu.",
    },
    "enrol_unsupported": {
        "en": "This browser cannot create passkeys. Open the link in another one, with JavaScript on.",
        "pt": "Este navegador não cria chaves de acesso. Abra o link em outro, com JavaScript ligado.",
    },
    "enrol_cancelled": {
        "en": "No passkey was created. Try again.",
        "pt": "Nenhuma chave de acesso foi criada. Tente de novo.",
    },
    "enrol_known": {
        "en": "This device has a passkey for {user} already. Sign in with it.",
        "pt": "Este aparelho já tem uma chave de acesso de {user}. Entre com ela.",
    },
    "enrol_wrong": {
        "en": "The passkey could not be saved. Try again, or with another device.",
        "pt": "A chave de acesso não pôde ser salva. Tente de novo ou com outro aparelho.",
    },
    "enrolled": {"en": "Your passkey is saved", "pt": "Sua chave de acesso foi salva"},
    "enrolled_lead": {
        "en": "Choose “Use a passkey” the next time that you sign in as {user}. You can close this page.",
        "pt": "Escolha “Usar uma chave de acesso” na próxima vez que entrar como {user}. Você pode fechar"
        " esta página.",
    },
    "link_gone": {
        "en": "This link was used, is too old, or was withdrawn. Ask the operator of the gateway for a new"
        " one.",
        "pt": "Este link já foi usado, é antigo demais ou foi retirado. Peça um novo ao operador do gateway.",
    },
    "enrol_expired": {
        "en": "This page is too old, or was opened in another browser. Open the link again.",
        "pt": "Esta página é antiga demais, ou foi aberta em outro navegador. Abra o link de novo.",
    },
    "link_localhost": {
        "en": "Browsers allow no passkeys at an address that is a number. Open the same link with localhost"
        " in its place.",
        "pt": "Navegadores não permitem chaves de acesso em um endereço que é um número. Abra o mesmo link"
        " com localhost no lugar dele.",
    },
    "link_insecure": {
        "en": "Browsers allow passkeys only at https addresses with a name. Tell the operator of the"
        " gateway.",
        "pt": "Navegadores só permitem chaves de acesso em endereços https com um nome. Avise o operador do"
        " gateway.",
    },
    "consent": {"en": "Allow {client}?", "pt": "Permitir {client}?"},
    "unnamed": {"en": "an application without a name", "pt": "um aplicativo sem nome"},
    "consent_lead": {
        "en": "It will act as {user} at this gateway until this login ends or is revoked.",
        "pt": "Ele vai agir como {user} neste gateway até que este acesso termine ou seja revogado.",
    },
    "returns": {"en": "You will be sent to", "pt": "Você será levado para"},
    "to_machine": {"en": "a program on this computer", "pt": "um programa neste computador"},
    "to_application": {"en": "the application that opens", "pt": "o aplicativo que abre"},
    "asks": {"en": "It asks for", "pt": "Ele pede"},
    "at": {"en": "At", "pt": "Em"},
    "identity": {"en": "Who it is", "pt": "Quem é"},
    "by_host": {"en": "described at {host}", "pt": "descrito em {host}"},
    "by_operator": {"en": "registered by the operator", "pt": "registrado pelo operador"},
    "by_itself": {
        "en": "registered itself; nobody has checked its name",
        "pt": "registrou-se sozinho; ninguém verificou o nome",
    },
    "caution": {
        "en": "Go on only if you have just started this yourself.",
        "pt": "Continue só se foi você quem acabou de iniciar isto.",
    },
    "allow": {"en": "Allow", "pt": "Permitir"},
    "deny": {"en": "Deny", "pt": "Recusar"},
    "another": {"en": "Use another account", "pt": "Usar outra conta"},
    "scope_default": {
        "en": "Use the tools that you may use",
        "pt": "Usar as ferramentas que você pode usar",
    },
    "scope_approve": {
        "en": "Decide about calls that wait for approval",
        "pt": "Decidir sobre chamadas que aguardam aprovação",
    },
    "scope_usage": {"en": "See who uses how much", "pt": "Ver quem usa quanto"},
    "problem": {"en": "This did not work", "pt": "Isto não funcionou"},
    "go_back": {
        "en": "Go back to the application and start again.",
        "pt": "Volte ao aplicativo e comece de novo.",
    },
    "unknown_client": {
        "en": "The application that sent you here is not known, or not any more. Remove the connection there"
        " and add it again.",
        "pt": "O aplicativo que trouxe você aqui não é conhecido, ou não é mais. Remova a conexão nele e"
        " adicione de novo.",
    },
    "wrong_redirect": {
        "en": "The application wants you to be sent to an address that is not its own, so nothing was sent.",
        "pt": "O aplicativo quer levar você a um endereço que não é dele, então nada foi enviado.",
    },
    "expired": {
        "en": "This page is too old, or was opened in another browser.",
        "pt": "Esta página é antiga demais, ou foi aberta em outro navegador.",
    },
    "cross_site": {
        "en": "This form was sent by another site, so nothing was done.",
        "pt": "Este formulário foi enviado por outro site, então nada foi feito.",
    },
    "not_member": {
        "en": "Your account may not use this gateway. Ask its operator.",
        "pt": "Sua conta não pode usar este gateway. Fale com o operador.",
    },
    "issuer_failed": {
        "en": "The place where you sign in gave no usable answer.",
        "pt": "O lugar onde você entra não deu uma resposta utilizável.",
    },
    "unavailable": {
        "en": "The gateway cannot do this now. Try again in a moment.",
        "pt": "O gateway não consegue fazer isto agora. Tente de novo daqui a pouco.",
    },
    "bad_request": {"en": "The request cannot be understood.", "pt": "O pedido não pode ser entendido."},
}

_COMPLETE = frozenset(("enrol_expired", "link_gone", "link_localhost", "link_insecure"))
"""Problems whose texts say what to do."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5b6472;--line:#e2e0d8;--card:#fff;--back:#f6f5f1;
--act:#0f766e;--act-ink:#fff;--warn:#8a4b00;--warn-back:#fff4e0;--bad:#a32020;--bad-back:#fdecec}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaee;--soft:#9aa4b2;--line:#2c333e;--card:#1c2129;
--back:#14171c;--act:#5cc4b8;--act-ink:#0c1420;--warn:#ffcf8a;--warn-back:#33260f;--bad:#ffa3a3;
--bad-back:#3a1a1a}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;background:var(--back);color:var(--ink);display:flex;align-items:center;
justify-content:center;padding:24px;font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:460px;background:var(--card);border:1px solid var(--line);border-radius:14px;
padding:36px;box-shadow:0 12px 32px rgba(15,25,40,.08)}
.yard{font-size:14px;font-weight:600;letter-spacing:.02em;color:var(--soft);margin:0 0 20px;
overflow-wrap:anywhere}
.yard b{display:inline-block;width:10px;height:10px;border-radius:3px;background:var(--act);margin-right:8px}
h1{font-size:25px;line-height:1.25;margin:0 0 8px;overflow-wrap:anywhere}
p{margin:0 0 18px;color:var(--soft);overflow-wrap:anywhere}
p strong{color:var(--ink)}
label{display:block;font-weight:600;font-size:14px;margin:0 0 16px}
input{display:block;width:100%;margin-top:6px;padding:11px 12px;font:inherit;font-size:16px;
font-weight:400;color:inherit;
background:transparent;border:1px solid var(--line);border-radius:8px}
input::placeholder{color:var(--soft);opacity:.8}
input:focus-visible,button:focus-visible{outline:3px solid var(--act);outline-offset:2px}
.row{display:flex;gap:12px;margin-top:24px}
button{flex:1;padding:12px 16px;font:inherit;font-weight:600;border-radius:8px;cursor:pointer;
border:1px solid var(--line);background:transparent;color:inherit}
button.main{background:var(--act);border-color:var(--act);color:var(--act-ink)}
button.link{flex:none;border:0;padding:0;margin-top:18px;font-weight:400;font-size:14px;color:var(--soft);
text-decoration:underline}
dl{margin:0 0 18px;border:1px solid var(--line);border-radius:10px}
dl div{padding:12px 16px;border-top:1px solid var(--line)}
dl div:first-child{border-top:0}
dt{font-size:13px;color:var(--soft)}
dd{margin:2px 0 0;overflow-wrap:anywhere}
dd.where{font-size:19px;font-weight:650}
dd ul{margin:0;padding-left:18px}
.or{display:flex;align-items:center;gap:12px;margin:22px 0;font-size:14px;color:var(--soft)}
.or::before,.or::after{content:"";flex:1;border-top:1px solid var(--line)}
.or~form .row{margin-top:0}
.note{font-size:14px;margin:22px 0 0}
[hidden]{display:none!important}
button:disabled{opacity:.6;cursor:default}
code{font:13px/1.4 ui-monospace,SFMono-Regular,Consolas,monospace;overflow-wrap:anywhere}
.warn,.bad{border-radius:8px;padding:10px 14px;font-size:14px;margin:0 0 18px}
.warn{background:var(--warn-back);color:var(--warn)}
.bad{background:var(--bad-back);color:var(--bad)}
@media(max-width:520px){body{padding:0;align-items:stretch}main{border:0;border-radius:0;box-shadow:none;
padding:28px 20px;max-width:none}.row{flex-direction:column-reverse}button{width:100%}button.link{width:auto}}
"""

# Reads the options from the form and puts the answer into it. Has no text: what it shows is in the page, so
# that it is the same in every language and its hash too.
_SCRIPT = """
"use strict";
(() => {
  const form = document.getElementById("passkey");
  if (!window.PublicKeyCredential || !navigator.credentials) return;
  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (bytes) =>
    btoa(String.fromCharCode(...new Uint8Array(bytes)))
      .replace(/\\+/g, "-").replace(/\\//g, "_").replace(/=+$/, "");
  const publicKey = JSON.parse(form.dataset.options);
  if (publicKey.user && !AuthenticatorAttestationResponse.prototype.getPublicKey) return;
  publicKey.challenge = bytes(publicKey.challenge);
  if (publicKey.user) publicKey.user.id = bytes(publicKey.user.id);
  for (const known of publicKey.excludeCredentials || []) known.id = bytes(known.id);
  const create = async () => {
    const { response } = await navigator.credentials.create({ publicKey });
    return {
      client_data: text(response.clientDataJSON),
      authenticator_data: text(response.getAuthenticatorData()),
      public_key: text(response.getPublicKey()),
    };
  };
  const get = async () => {
    const { rawId, response } = await navigator.credentials.get({ publicKey });
    return {
      id: text(rawId),
      client_data: text(response.clientDataJSON),
      authenticator_data: text(response.authenticatorData),
      signature: text(response.signature),
      handle: text(response.userHandle),
    };
  };
  const button = form.querySelector("button");
  const problems = [...document.querySelectorAll("[data-problem]")];
  const show = (name) => {
    const known = problems.some((one) => one.dataset.problem === name);
    for (const one of problems) one.hidden = one.dataset.problem !== (known ? name : "NotAllowedError");
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const one of document.querySelectorAll("[role=alert]")) one.hidden = true;
    button.disabled = true;
    try {
      form.elements.credential.value = JSON.stringify(await (publicKey.user ? create() : get()));
      form.submit();
    } catch (error) {
      show(error.name);
      button.disabled = false;
    }
  });
  for (const one of document.querySelectorAll("[data-without]")) one.hidden = true;
  for (const one of document.querySelectorAll("[data-with]")) one.hidden = false;
})();
"""


def _source(text: str) -> str:
    """Names an inline style or script in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE_SOURCE, PASSKEY_SCRIPT = _source(_STYLE), _source(_SCRIPT)


def page_headers(forms: str = "'none'", script: str = "") -> Headers:
    """`forms`: where forms of the page may lead, redirects that follow included."""
    scripts = f"script-src {script}; " if script else ""
    policy = (
        f"default-src 'none'; style-src {_STYLE_SOURCE}; {scripts}form-action {forms}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"cross-origin-opener-policy", b"same-origin"),
        # Not "no-referrer": with that, browsers send forms with the origin "null".
        (b"referrer-policy", b"same-origin"),
        (b"vary", b"accept-language, cookie"),
        NO_STORE,
        NO_SNIFF,
    ]


def language_of(accepted: str) -> Language:
    """The first of our languages by weight in Accept-Language; English without one."""
    weights: list[tuple[float, int, Language]] = []
    for position, entry in enumerate(accepted[:500].split(",")):
        tag, _, rest = entry.partition(";")
        name = tag.strip().lower().partition("-")[0]
        try:
            weight = float(rest.strip().removeprefix("q=")) if rest.strip() else 1.0
        except ValueError:
            continue
        if name in ("en", "pt") and weight > 0:
            weights.append((-weight, position, "pt" if name == "pt" else "en"))
    return min(weights)[2] if weights else "en"


class Pages:
    """`title` names the gateway."""

    def __init__(self, title: str) -> None:
        self._title = title

    def sign_in(
        self,
        language: Language,
        client: OAuthClient,
        flow: str,
        *,
        passkey: Mapping[str, object] | None = None,
        local: str = "",
        user: str = "",
        problem: str = "",
    ) -> bytes:
        """`passkey` are the options for a browser, None where there are no passkeys.

        `local` is the address where there are some instead. `problem` is a text of `wrong` or `waiting`.
        """
        told = f'<p class="bad" role="alert">{problem}</p>' if problem else ""
        lead = _text("sign_in_lead", language, client=f"<strong>{_name(client, language)}</strong>")
        other = "" if passkey is None else self._passkey_form(language, flow, passkey)
        if local:
            shown = _text("passkey_localhost", language, address=f"<code>{escape(local)}</code>")
            other = f'<p class="note">{shown}</p>'
        return self._page(
            language,
            _text("sign_in", language),
            f"<p>{lead}</p>{told}"
            f'<form method="post" action="login">{_hidden("flow", flow)}'
            f"<label>{_text('user', language)}"
            f'<input name="user" value="{escape(user[:200])}" autocomplete="username" autocapitalize="none"'
            f' spellcheck="false" required{"" if user else " autofocus"}></label>'
            f"<label>{_text('password', language)}"
            '<input name="password" type="password" autocomplete="current-password" required'
            f"{' autofocus' if user else ''}></label>"
            f'<div class="row"><button class="main">{_text("sign_in", language)}</button></div></form>'
            f"{other}",
        )

    def _passkey_form(self, language: Language, flow: str, options: Mapping[str, object]) -> str:
        return (
            f'<p class="or" data-with hidden>{_text("or", language)}</p>'
            + _problem("NotAllowedError", _text("passkey_cancelled", language))
            + _problem("SecurityError", _text("passkey_elsewhere", language))
            + f'<form method="post" action="passkey" id="passkey" data-options="{_json(options)}" data-with'
            f" hidden>{_hidden('flow', flow)}{_hidden('credential', '')}"
            f'<div class="row"><button>{_text("use_passkey", language)}</button></div></form>'
            f"<script>{_SCRIPT}</script>"
        )

    def enrol(
        self,
        language: Language,
        *,
        user: str,
        host: str,
        flow: str,
        options: Mapping[str, object],
        problem: str = "",
    ) -> bytes:
        """`problem` is a key of the texts."""
        strong = f"<strong>{escape(user)}</strong>"
        lead = _text("enrol_lead", language, user=strong, host=f"<strong>{escape(host)}</strong>")
        told = f'<p class="bad" role="alert">{_text(problem, language)}</p>' if problem else ""
        return self._page(
            language,
            _text("enrol", language),
            f"<p>{lead}</p>{told}"
            f'<p class="bad" data-without>{_text("enrol_unsupported", language)}</p>'
            + _problem("NotAllowedError", _text("enrol_cancelled", language))
            + _problem("InvalidStateError", _text("enrol_known", language, user=strong))
            + _problem("SecurityError", _text("passkey_elsewhere", language))
            + f'<form method="post" action="enrol" id="passkey" data-options="{_json(options)}" data-with'
            f" hidden>{_hidden('flow', flow)}{_hidden('credential', '')}"
            f"<label>{_text('passkey_name', language)}"
            f'<input name="name" maxlength="{MAX_NAME}" autocomplete="off"'
            f' placeholder="{_text("passkey_example", language)}"></label>'
            f'<p class="warn">{_text("enrol_once", language)}</p>'
            f'<div class="row"><button class="main">{_text("enrol", language)}</button></div></form>'
            f"<script>{_SCRIPT}</script>",
        )

    def enrolled(self, language: Language, user: str) -> bytes:
        lead = _text("enrolled_lead", language, user=f"<strong>{escape(user)}</strong>")
        return self._page(language, _text("enrolled", language), f"<p>{lead}</p>")

    def consent(
        self,
        language: Language,
        client: OAuthClient,
        *,
        user: str,
        redirect: str,
        resource: str,
        scopes: Sequence[str],
        flow: str,
    ) -> bytes:
        kind, target = redirect_target(redirect)
        where = escape(target)
        if kind != "web":
            where = f"{_text(f'to_{kind}', language)} <code>{where}</code>"
        rows = {
            "returns": f'<dd class="where">{where}</dd>',
            "asks": f"<dd><ul>{''.join(_scope(scope, language) for scope in scopes)}</ul></dd>",
            "at": f"<dd><code>{escape(resource)}</code></dd>",
            "identity": f"<dd>{_identity(client, language)}</dd>",
        }
        table = "".join(f"<div><dt>{_text(name, language)}</dt>{cell}</div>" for name, cell in rows.items())
        caution = "" if kind == "web" and client.host else f'<p class="warn">{_text("caution", language)}</p>'
        return self._page(
            language,
            _text("consent", language, client=_name(client, language)),
            f"<p>{_text('consent_lead', language, user=f'<strong>{escape(user)}</strong>')}</p>"
            f"<dl>{table}</dl>{caution}"
            f'<form method="post" action="consent">{_hidden("flow", flow)}<div class="row">'
            f'<button name="decision" value="deny">{_text("deny", language)}</button>'
            f'<button class="main" name="decision" value="allow">{_text("allow", language)}</button></div>'
            f'<button class="link" name="decision" value="switch">{_text("another", language)}</button>'
            "</form>",
        )

    def problem(self, language: Language, text: str) -> bytes:
        """`text` is a key of the texts."""
        then = "" if text in _COMPLETE else f"<p>{_text('go_back', language)}</p>"
        return self._page(language, _text("problem", language), f"<p>{_text(text, language)}</p>{then}")

    def wrong(self, language: Language) -> str:
        return _text("wrong", language)

    def wrong_passkey(self, language: Language) -> str:
        return _text("passkey_wrong", language)

    def waiting(self, language: Language, seconds: float) -> str:
        return _text("wait", language, minutes=str(max(1, round(seconds / 60))))

    def _page(self, language: Language, heading: str, body: str) -> bytes:
        tag = "pt-BR" if language == "pt" else "en"
        title = escape(self._title)
        return (
            f'<!doctype html><html lang="{tag}"><head><meta charset="utf-8">'
            f"<title>{heading} · {title}</title>"
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<meta name="robots" content="noindex"><style>{_STYLE}</style></head><body><main>'
            f'<p class="yard"><b></b>{title}</p><h1>{heading}</h1>{body}</main></body></html>'
        ).encode()


def _text(name: str, language: Language, **values: str) -> str:
    text = _TEXTS[name][language]
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def _problem(name: str, text: str) -> str:
    """A text that the script shows for an error of this name."""
    return f'<p class="bad" role="alert" data-problem="{name}" hidden>{text}</p>'


def _json(value: object) -> str:
    return escape(msgspec.json.encode(value).decode())


def _name(client: OAuthClient, language: Language) -> str:
    return escape(client.name) or _text("unnamed", language)


def _identity(client: OAuthClient, language: Language) -> str:
    if client.host:
        return _text("by_host", language, host=f"<strong>{escape(client.host)}</strong>")
    return _text("by_operator" if client.is_configured else "by_itself", language)


def _scope(scope: str, language: Language) -> str:
    known = f"scope_{scope}"
    if known in _TEXTS:
        return f"<li>{_text(known, language)} <code>{escape(scope)}</code></li>"
    if scope == "mcp":
        return f"<li>{_text('scope_default', language)} <code>mcp</code></li>"
    return f"<li><code>{escape(scope)}</code></li>"
