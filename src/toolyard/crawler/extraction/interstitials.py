"""Recognises pages that stand in front of the page that was asked for, and says which kind it is.

Looks at status, headers and marks of the known vendors, and at titles and sentences in several languages. A
page with a text of its own is never one of these only because it also has a banner, a captcha in its contact
form or a login link: without a vendor's sure sign, only pages of few words are.
"""

import re
from collections.abc import Mapping
from typing import Literal

Interstitial = Literal["cloudflare", "captcha", "blocked", "consent", "login", "paywall", "javascript"]

FEW_WORDS = 120
TEASER_WORDS = 250
"""A page for subscribers that shows fewer words than this shows only a teaser."""

_CLOUDFLARE = re.compile(
    r"cf-browser-verification|cf_chl_opt|challenges\.cloudflare\.com/turnstile|/cdn-cgi/challenge-platform|"
    r"cf-error-details|__cf_chl_|cf-challenge",
    re.IGNORECASE,
)
_CLOUDFLARE_TITLE = re.compile(
    r"just a moment|attention required.*cloudflare|um momento|einen moment|un instant|un momento|"
    r"checking your browser|"
    r"ddos-guard",
    re.IGNORECASE,
)
_CAPTCHA = re.compile(
    r"g-recaptcha|google\.com/recaptcha|hcaptcha\.com|h-captcha|px-captcha|captcha-delivery\.com|"
    r"geo\.captcha|"
    r"arkoselabs|funcaptcha|friendlycaptcha|aws-waf-token|awswaf|datadome|perimeterx|_incapsula_resource|"
    r"/sorry/index|yandex\.\w+/showcaptcha|captcha-form",
    re.IGNORECASE,
)
_HUMAN = re.compile(
    r"(?:are you|verify (?:that )?you(?:'re| are)|confirm (?:that )?you(?:'re| are)|prove you(?:'re|"
    r" are)) (?:a |not a )?(?:human|robot|bot)|"
    r"unusual (?:traffic|activity) from|press (?:&|and) hold|i(?:'m| am) not a robot|"
    r"complete the (?:security check|captcha)|"
    r"(?:você|voce) (?:é|nao e|não é) (?:um )?(?:humano|robô|robo)|não sou um robô|"
    r"verifique se (?:você )?é humano|"
    r"tráfego incomum|sind sie ein mensch|ich bin kein roboter|no soy un robot|verifica que eres humano|"
    r"êtes-vous un (?:humain|robot)|je ne suis pas un robot|подтвердите, что вы не робот",
    re.IGNORECASE,
)
_BLOCKED = re.compile(
    r"access denied|request blocked|you (?:have been|are|were) blocked|access to this page has been denied|"
    r"reference #\d+\.[0-9a-f]|incident id|acesso negado|acesso bloqueado|zugriff verweigert|accès refusé|"
    r"acceso denegado|"
    r"доступ запрещ|not available in your (?:country|region)|unavailable for legal reasons",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"before you continue to|we value your privacy|we and our \d* ?partners|"
    r"accept (?:all )?cookies to continue|"
    r"consent\.(?:google|yahoo|youtube)\.|antes de continuar|valorizamos (?:a )?sua privacidade|"
    r"aceite (?:os |todos os )?cookies para continuar|"
    r"wir (?:und unsere|brauchen ihre) (?:partner|zustimmung|einwilligung)|"
    r"bevor sie fortfahren|avant de continuer|antes de ir a|"
    r"nous (?:et nos|respectons votre) (?:partenaires|vie privée)",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"(?:log|sign) ?in to (?:continue|view|see|your account|access)|"
    r"(?:you must|please) (?:be logged|log|sign) ?in|login required|"
    r"create an account or (?:log|sign) in|faça login para|entre para continuar|inicie sessão|"
    r"é preciso (?:estar logado|fazer login)|"
    r"bitte (?:melden sie sich|loggen)|connectez-vous pour|inicia sesión para|войдите, чтобы",
    re.IGNORECASE,
)
_PAYWALL = re.compile(
    r"subscribe (?:now )?to (?:continue|keep|read|unlock)|to continue reading|already a subscriber|"
    r"(?:this|the) (?:article|content|story) is (?:for|reserved for|exclusive to|"
    r"only available to) (?:our )?(?:subscribers|members)|"
    r"you(?:'ve| have) reached your (?:limit|article)|"
    r"(?:exclusivo|conteúdo) (?:para|exclusivo para) assinantes|"
    r"assine (?:já |agora )?para (?:continuar|ler)|"
    r"já é assinante|para continuar lendo|abonnieren sie,? um|nur für abonnenten|réservé aux abonnés|"
    r"exclusivo para suscriptores|"
    r"suscríbete para|только для подписчиков",
    re.IGNORECASE,
)
_SCRIPTS = re.compile(
    r"(?:enable|turn on|activate|requires?|need(?:s)?) javascript|"
    r"javascript (?:is )?(?:required|disabled|must be enabled|to run this app)|"
    r"(?:habilite|ative|ativar|requer|precisa d[eo]) (?:o )?javascript|javascript (?:está )?desativado|"
    r"(?:aktivieren sie|bitte aktivieren sie) (?:bitte )?javascript|activez javascript|"
    r"(?:activa|habilita) javascript|включите javascript",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"""<input[^>]{0,300}type\s*=\s*["']?password""", re.IGNORECASE)


def interstitial(
    status: int,
    headers: Mapping[str, str],
    html: str,
    title: str,
    text: str,
    words: int,
    is_free: bool = True,
) -> Interstitial | None:
    """`headers` have names in lower case; `text` is the visible text, `words` those of the main content."""
    is_refusal = status in (401, 403, 405, 406, 429, 451, 503)
    is_short = words <= FEW_WORDS
    if headers.get("cf-mitigated") == "challenge":
        return "cloudflare"
    if (is_refusal or is_short) and (
        _CLOUDFLARE.search(html) or (_CLOUDFLARE_TITLE.search(title) and is_refusal)
    ):
        return "cloudflare"
    if (is_refusal or is_short) and (
        _HUMAN.search(f"{title}\n{text}") or (is_refusal and _CAPTCHA.search(html))
    ):
        return "captcha"
    if is_short and words < 40 and _CAPTCHA.search(html):
        return "captcha"
    if (is_refusal and status != 401) and _BLOCKED.search(f"{title}\n{text}"):
        return "blocked"
    if _is_paywall(text, words, is_free):
        return "paywall"
    if not is_short:
        return None
    return _short_page(status, html, title, text, words)


def _is_paywall(text: str, words: int, is_free: bool) -> bool:
    if words > TEASER_WORDS:
        return False
    return _PAYWALL.search(text) is not None or (not is_free and words < FEW_WORDS)


def _short_page(status: int, html: str, title: str, text: str, words: int) -> Interstitial | None:
    whole = f"{title}\n{text}"
    if _BLOCKED.search(title):
        return "blocked"
    if status == 401 or _LOGIN.search(whole) or (_PASSWORD.search(html) and words < 60):
        return "login"
    if _CONSENT.search(whole) and words < 100:
        return "consent"
    if words < 60 and _SCRIPTS.search(whole + _noscript(html)):
        return "javascript"
    return None


def _noscript(html: str) -> str:
    return " ".join(
        re.findall(r"<noscript[^>]*>(.{0,2000}?)</noscript", html[:300_000], re.IGNORECASE | re.DOTALL)
    )
